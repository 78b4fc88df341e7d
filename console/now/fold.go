package now

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/lab/causes"
)

// Bounds of a state, because browsers need seconds to show tens of thousands of objects. Of one
// cause, perCause items are shown, so that many objects with one problem do not hide another one.
const (
	maxItems = 500
	perCause = 20
	maxWakes = 20
)

// index finds objects by name and UID.
type index struct {
	byName map[causes.Object]*inventory.Object
	byUID  map[string]*inventory.Object
}

func nameOf(o *inventory.Object) causes.Object {
	return causes.Object{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// maxOwners bounds a chain of owners, which may be a circle.
const maxOwners = 8

// root returns the topmost owner of an object, or the object itself. Nodes own the objects that
// represent their own pods, but are not their cause.
func (x index) root(o *inventory.Object) *inventory.Object {
	for range maxOwners {
		var owner *inventory.Object
		for _, ref := range o.Owners {
			if found := x.byUID[ref.UID]; found != nil && found.Kind != "Node" && (ref.Controller || owner == nil) {
				owner = found
			}
		}
		if owner == nil {
			break
		}
		o = owner
	}
	return o
}

// consequences are the reasons of conditions which say only that another object, or another part of
// the status, has a problem.
var consequences = []string{"MinimumReplicasUnavailable", "ContainersNotReady", "ContainersNotInitialized", "PodFailed"}

// distinct removes problems that repeat others of the same item: consequences, Events with the
// message of a condition, and facts that an earlier problem states, such as those of an owner. A
// problem without another one stays.
func distinct(all []Problem) []Problem {
	kept := slices.DeleteFunc(slices.Clone(all), func(p Problem) bool {
		return p.What == waitsForReplicas || slices.Contains(consequences, p.reason) || p.What == "BackOff" && p.event
	})
	if len(kept) == 0 {
		return all
	}
	var result []Problem
	for i, p := range kept {
		if p.event && slices.ContainsFunc(kept, func(q Problem) bool {
			return !q.event && p.message != "" && strings.Contains(q.Text, p.message)
		}) {
			continue
		}
		fact := p.fact()
		repeats := func(q Problem) bool { return q.ID == 0 && strings.Contains(q.fact(), fact) }
		if p.ID == 0 && len(fact) >= shortFact && (slices.ContainsFunc(kept[:i], repeats) ||
			p.event && slices.ContainsFunc(kept[i+1:], func(q Problem) bool { return !q.event && repeats(q) })) {
			continue
		}
		result = append(result, p)
	}
	return result
}

// shortFact is the length of texts that say too little to be the same fact.
const shortFact = 16

var (
	// createdPods are the names of pods that could not be created. Each attempt has another one.
	createdPods = regexp.MustCompile(`^pods "[^"]*"`)
	// framing are words that Events and conditions put before a message.
	framing = regexp.MustCompile(`^(\(combined from similar events\): )?(FailedCreate: )?(Error creating: )?`)
)

// fact returns the text of a problem without what differs in messages about the same fact.
func (p Problem) fact() string {
	text := p.Text
	if p.event {
		text = p.message
	}
	return createdPods.ReplaceAllString(framing.ReplaceAllString(text, ""), "pods")
}

var digits = regexp.MustCompile(`[0-9]+`)

// cause returns a text that equal problems of different objects have: without the name and UID of
// the object, and without numbers.
func (p Problem) cause(o *inventory.Object) string {
	text := p.Text
	if o != nil {
		text = strings.ReplaceAll(text, o.UID, "")
		text = strings.ReplaceAll(text, o.Name, "")
	}
	return p.What + "\x00" + digits.ReplaceAllString(text, "0")
}

// fold moves the problems of objects to the topmost owners of these, equal ones as one problem.
func (x index) fold(problems map[causes.Object][]Problem) []Item {
	type key struct {
		root  causes.Object
		kind  string
		cause string
	}
	items := map[causes.Object]*Item{}
	folded := map[key]int{} // the index of the problem in the root's item
	at := func(o causes.Object) *Item {
		if items[o] == nil {
			items[o] = &Item{Object: o}
			if known := x.byName[o]; known != nil {
				items[o].Resource = known.Resource
			}
		}
		return items[o]
	}
	// In a fixed order: the example of equal problems must not change.
	names := slices.Collect(maps.Keys(problems))
	slices.SortFunc(names, func(a, b causes.Object) int { return strings.Compare(a.String(), b.String()) })
	for _, o := range names {
		known, root := x.byName[o], o
		if known != nil {
			root = nameOf(x.root(known))
		}
		item := at(root)
		for _, p := range distinct(problems[o]) {
			if root == o {
				item.Problems = append(item.Problems, p)
				continue
			}
			k := key{root, o.Kind, p.cause(known)}
			if i, ok := folded[k]; ok {
				item.Problems[i].merge(p)
				continue
			}
			folded[k] = len(item.Problems)
			p.Object, p.Objects = &o, 1
			item.Problems = append(item.Problems, p)
		}
	}
	result := make([]Item, 0, len(items))
	for _, item := range items {
		item.Problems = distinct(item.Problems)
		result = append(result, *item)
	}
	return result
}

// merge adds an equal problem of another object.
func (p *Problem) merge(other Problem) {
	p.Objects++
	if other.Tone == "bad" {
		p.Tone = "bad"
	}
	if p.Time.IsZero() || !other.Time.IsZero() && other.Time.Before(p.Time) {
		p.Time = other.Time
	}
}

// bad reports whether an item has an error.
func (i Item) bad() bool {
	return slices.ContainsFunc(i.Problems, func(p Problem) bool { return p.Tone == "bad" })
}

// rank orders items: failures of operators, other errors, and what only waits.
func (i Item) rank() int {
	switch {
	case slices.ContainsFunc(i.Problems, func(p Problem) bool { return p.ID != 0 }):
		return 0
	case i.bad():
		return 1
	}
	return 2
}

// newest returns the time of the problem that began last.
func (i Item) newest() (at int64) {
	for _, p := range i.Problems {
		if !p.Time.IsZero() {
			at = max(at, p.Time.UnixNano())
		}
	}
	return at
}

// order sorts items: the failures of operators first, then the newest.
func order(items []Item) {
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(a.rank()-b.rank(), cmp.Compare(b.newest(), a.newest()), strings.Compare(a.String(), b.String()))
	})
}

// causes returns a text that items with the same problems have.
func (x index) causes(i Item) string {
	var all []string
	for _, p := range i.Problems {
		about := x.byName[i.Object]
		if p.Object != nil {
			about = x.byName[*p.Object]
		}
		all = append(all, p.cause(about))
	}
	slices.Sort(all)
	return i.Kind + "\x00" + strings.Join(slices.Compact(all), "\x00")
}

// bound shortens a sorted list to maxItems. It omits items of causes that have most items, and
// counts them in the last item of the cause that stays.
func (x index) bound(items []Item) []Item {
	number := map[string]int{} // of items with a cause
	ofCause := make([]string, len(items))
	position := make([]int, len(items)) // among those with the same cause
	for i, item := range items {
		ofCause[i] = x.causes(item)
		position[i] = number[ofCause[i]]
		number[ofCause[i]]++
	}
	// The greatest number per cause that fits.
	limit := perCause
	fits := func() bool {
		kept := 0
		for _, n := range number {
			kept += min(n, limit)
		}
		return kept <= maxItems
	}
	for limit > 1 && !fits() {
		limit--
	}
	shown := []Item{}
	for i, item := range items {
		if position[i] >= limit || len(shown) == maxItems {
			continue
		}
		if position[i] == limit-1 {
			item.More = number[ofCause[i]] - limit
		}
		shown = append(shown, item)
	}
	return shown
}
