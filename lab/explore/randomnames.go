package explore

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Operators also choose random names themselves, as with rand.String of Kubernetes' libraries. The
// random numbers of a process depend only on its number, so all runs without faults have the same
// names, but after a fault, a later process may create the object, under another name. One run
// without faults in which the processes have other numbers shows which names are random, and where.

// otherNumbers is added to the numbers of the processes of that run.
const otherNumbers = 1 << 20

// leastRandom is the length of the shortest random part of a name.
const leastRandom = 4

// randomName is the form of a random name, with the name that describes it.
type randomName struct {
	form *regexp.Regexp
	as   string
}

// withoutRandomPart replaces the random part of a name by *.
func (n *names) withoutRandomPart(name string) string {
	for _, r := range n.random {
		if r.form.MatchString(name) {
			return r.as
		}
	}
	return name
}

// learnRandomNames compares the names of a run with those of another one, if one of them has a part
// that may be random.
func (e *explorer) learnRandomNames(first *result) {
	created := createdIn(first)
	if e.virtual == nil || len(first.alarms) > 0 || !slices.ContainsFunc(created, mayBeRandom) {
		return
	}
	e.numbers = otherNumbers
	other := e.run(nil)
	e.numbers = 0
	if other.failed != nil {
		return // the runs of the reference report it
	}
	e.random = randomNames(created, createdIn(other))
}

// createdIn returns the IDs of the objects that a run has created.
func createdIn(r *result) (ids []string) {
	for key := range r.counts {
		if id, ok := strings.CutPrefix(key, created); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// mayBeRandom reports whether the name in an ID has a part that is not like a word.
func mayBeRandom(id string) bool {
	name := id[strings.LastIndexAny(id, " /")+1:]
	parts := strings.FieldsFunc(name, func(r rune) bool { return !isAlphanumeric(r) })
	return slices.ContainsFunc(parts, func(part string) bool {
		return len(part) >= leastRandom &&
			(!strings.ContainsAny(part, "aeiou") || strings.ContainsAny(part, "0123456789"))
	})
}

func isAlphanumeric(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' }

// randomNames returns the forms of the names in which the IDs of two runs differ.
func randomNames(one, other []string) (found []randomName) {
	without := func(ids, others []string) []string {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			_, shared := slices.BinarySearch(others, id)
			return shared
		})
	}
	others := without(other, one)
	for _, id := range without(one, other) {
		for i, candidate := range others {
			if r, ok := randomPart(id, candidate); ok {
				others = slices.Delete(others, i, i+1)
				if !slices.ContainsFunc(found, func(f randomName) bool { return f.as == r.as }) {
					found = append(found, r)
				}
				break
			}
		}
	}
	return found
}

// randomPart returns the form of the names of two IDs that differ in one part only, which has the
// same length in both.
func randomPart(one, other string) (randomName, bool) {
	if len(one) != len(other) || one == other {
		return randomName{}, false
	}
	from, to := 0, len(one)
	for one[from] == other[from] {
		from++
	}
	for one[to-1] == other[to-1] {
		to--
	}
	for from > 0 && isAlphanumeric(rune(one[from-1])) {
		from--
	}
	for to < len(one) && isAlphanumeric(rune(one[to])) {
		to++
	}
	begin := strings.LastIndexAny(one, " /") + 1
	isRandom := func(part string) bool {
		return len(part) >= leastRandom && !strings.ContainsFunc(part, func(r rune) bool { return !isAlphanumeric(r) })
	}
	if from < begin || !isRandom(one[from:to]) || !isRandom(other[from:to]) {
		return randomName{}, false
	}
	prefix, suffix := one[begin:from], one[to:]
	return randomName{form: regexp.MustCompile("^" + regexp.QuoteMeta(prefix) + "[a-z0-9]{" +
		strconv.Itoa(to-from) + "}" + regexp.QuoteMeta(suffix) + "$"), as: prefix + "*" + suffix}, true
}
