package explore

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	recording "kelson.dev/lab/history"
)

// Some operators write at constant intervals for ever, such as a status with the time of the last
// check. They would never be quiet. So the first run without faults finds such writes: the same
// fields of the same object at a constant interval, and nothing else. In later runs they do not
// count as changes, and the operator is quiet when nothing else has changed for two intervals: a
// write that a fault has delayed to the next time has then happened.
//
// A write that changes a field back and forth is not periodic in this sense, because it changes
// more than times and numbers. It remains an alarm, as are intervals below leastPeriod.

const (
	leastPeriod = 30 * time.Second
	// periods is the number of equal intervals after which a write is periodic.
	periods = 3
)

// periodic has the writes at constant intervals.
type periodic struct {
	period  time.Duration         // the longest interval
	objects map[string]string     // the interval of each object, as a text
	numbers map[string][][]string // by kind, the paths of the numbers that the writes change
}

// repeats reports whether a change is a periodic write. The content of both versions is normal, so
// it has none of the times and numbers that such writes change.
func (p *periodic) repeats(change Change, n *names) bool {
	if p == nil || change.Type != "MODIFIED" || change.Previous == nil {
		return false
	}
	_, known := p.numbers[kindOf(change.Object)]
	return known && reflect.DeepEqual(n.normal(change.Object), n.normal(change.Previous))
}

// hide replaces the numbers that periodic writes of a kind change.
func (p *periodic) hide(kind string, content map[string]any) {
	if p == nil {
		return
	}
	for _, path := range p.numbers[kind] {
		parent, _, _ := unstructured.NestedFieldNoCopy(content, path[:len(path)-1]...)
		if fields, ok := parent.(map[string]any); ok && fields[path[len(path)-1]] != nil {
			fields[path[len(path)-1]] = "a number"
		}
	}
}

// with adds the writes that were found after an earlier input.
func (p *periodic) with(earlier *periodic) *periodic {
	if earlier == nil {
		return p
	}
	p.period = max(p.period, earlier.period)
	for id, interval := range earlier.objects {
		p.objects[id] = cmp.Or(p.objects[id], interval)
	}
	for kind, numbers := range earlier.numbers {
		p.numbers[kind] = append(p.numbers[kind], numbers...)
	}
	return p
}

// lines describes the writes.
func (p *periodic) lines() (lines []string) {
	if p == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(p.objects)) {
		lines = append(lines, fmt.Sprintf("%s every %s", id, p.objects[id]))
	}
	return lines
}

func kindOf(obj *unstructured.Unstructured) string {
	return obj.GroupVersionKind().GroupKind().String()
}

// recentWrite is a change that a run without faults has shown.
type recentWrite struct {
	id, kind string
	at       time.Time
	// repeats is true if only times and numbers have changed. The numbers have these paths.
	repeats bool
	numbers [][]string
}

// writeOf describes a change.
func writeOf(id string, change Change, n *names) recentWrite {
	w := recentWrite{id: id, kind: kindOf(change.Object), at: time.Now()}
	if change.Type == "MODIFIED" && change.Previous != nil {
		w.numbers, w.repeats = onlyNumbers(n.normal(change.Previous), n.normal(change.Object))
	}
	return w
}

// onlyNumbers returns the paths of the fields in which two objects differ, and whether all of them
// are numbers that are not in lists.
func onlyNumbers(from, to map[string]any) (paths [][]string, ok bool) {
	for _, c := range recording.Compare(from, to, recording.DiffOptions{Secrets: true}) {
		var path []string
		for _, part := range c.Parts {
			name, isField := strings.CutPrefix(part, ".")
			if !isField {
				return nil, false
			}
			path = append(path, name)
		}
		if !isNumber(c.From) || !isNumber(c.To) {
			return nil, false
		}
		paths = append(paths, path)
	}
	return paths, true
}

// isNumber reports whether a JSON value is a number, or a string with one.
func isNumber(value string) bool {
	_, err := strconv.ParseFloat(strings.Trim(value, `"`), 64)
	return err == nil
}

// periodicOf returns the periodic writes if all writes after the last other one are periodic, and
// nil otherwise.
func periodicOf(writes []recentWrite) *periodic {
	last := len(writes)
	for last > 0 && writes[last-1].repeats {
		last--
	}
	byObject := map[string][]recentWrite{}
	for _, w := range writes[last:] {
		byObject[w.id] = append(byObject[w.id], w)
	}
	p := &periodic{objects: map[string]string{}, numbers: map[string][][]string{}}
	for id, all := range byObject {
		interval, ok := intervalOf(all)
		if !ok {
			return nil
		}
		p.period = max(p.period, interval)
		p.objects[id] = interval.Round(time.Second).String()
		for _, w := range all {
			p.numbers[w.kind] = append(p.numbers[w.kind], w.numbers...)
		}
	}
	if len(byObject) == 0 {
		return nil
	}
	return p
}

// intervalOf returns the interval of writes, if the last ones have a constant one: they differ by a
// tenth at most, because controllers add a random time.
func intervalOf(all []recentWrite) (time.Duration, bool) {
	if len(all) <= periods {
		return 0, false
	}
	all = all[len(all)-periods-1:]
	shortest, longest := time.Duration(0), time.Duration(0)
	for i, w := range all[1:] {
		interval := w.at.Sub(all[i].at)
		if i == 0 || interval < shortest {
			shortest = interval
		}
		longest = max(longest, interval)
	}
	return longest, shortest >= leastPeriod && longest-shortest <= shortest/10
}

// learn makes a run without faults that finds periodic writes.
func (e *explorer) learn() *result {
	e.learning = true
	defer func() { e.learning = false }()
	r := e.run(nil)
	e.periodic = r.periodic
	return r
}
