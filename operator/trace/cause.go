package trace

import (
	"slices"

	"kelson.dev/operator/client"
)

// Events that cause a reconcile.
const (
	Add    = "add"    // an object was seen for the first time
	Update = "update" // an object changed
	Delete = "delete" // an object is gone
	Sync   = "sync"   // an object was there when the controller started
	Resync = "resync" // a controller looks at everything again
	Retry  = "retry"  // the reconcile before returned an error
	After  = "after"  // the reconcile before asked for it
	Other  = "other"  // something outside the API server
)

// Cause is an event that put an object into the queue. Kind and Key are those of the object the event is about, which need not be the
// one that is reconciled; they are empty for Retry and After.
type Cause struct {
	Event           string
	Cluster         string // of the object, as in reconcile.Request
	Kind            string
	Key             client.Key
	ResourceVersion string
	// By is the reconcile that made the change; 0 if it was not one of this process, or is too long ago.
	By uint64
	// Manager made the change, by the managedFields of the object: the name of an operator, or of a tool such as kubectl-edit. It
	// is empty where that is not known.
	Manager string
	// Fields are those that changed, as "spec.replicas, status.phase"; only of objects that change suspiciously often.
	Fields string
}

// Causes is the merged, bounded set of events that led to a reconcile. The zero value is empty.
type Causes struct {
	list []Cause
	more int
	own  bool // list was made by Merge, and may be changed by the next
}

// maxCauses is how many causes of one reconcile are kept.
const maxCauses = 16

// Because is a set of causes.
func Because(causes ...Cause) Causes {
	if len(causes) == 1 {
		return Causes{list: causes} // the common case
	}
	return Causes{}.Merge(Causes{list: causes})
}

// Merge is the union of two sets, the older first. Of several events about one object the newest is kept, and After only if there
// is nothing else. It uses c up: only the result
// may be used afterwards.
func (c Causes) Merge(newer Causes) Causes {
	merged := Causes{list: c.list, more: c.more + newer.more, own: true}
	if !c.own {
		merged.list = append(make([]Cause, 0, len(c.list)+len(newer.list)), c.list...)
	}
	if len(newer.list) > 0 {
		// What was to happen later happens now, and not because its time has come.
		merged.list = slices.DeleteFunc(merged.list, func(o Cause) bool { return o.Event == After })
	}
	for _, n := range newer.list {
		if n.Event == After && len(merged.list) > 0 {
			continue
		}
		i := slices.IndexFunc(merged.list, func(o Cause) bool {
			return o.Kind == n.Kind && o.Key == n.Key && o.Cluster == n.Cluster && succeeds(n, o)
		})
		switch {
		case i >= 0:
			if n.Event == Update && (merged.list[i].Event == Add || merged.list[i].Event == Sync) {
				n.Event = merged.list[i].Event // still the first time that it is seen
			}
			merged.list[i] = n
		case len(merged.list) < maxCauses:
			merged.list = append(merged.list, n)
		default:
			merged.more++
		}
	}
	return merged
}

// succeeds says whether one event makes another about the same object superfluous.
func succeeds(n, o Cause) bool {
	return n.Event == o.Event || n.Kind != "" && o.Kind != ""
}

// All are the causes that were kept, oldest first. They must not be changed.
func (c Causes) All() []Cause { return c.list }

// More is the number of further ones that were not kept.
func (c Causes) More() int { return c.more }
