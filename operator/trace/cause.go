package trace

import (
	"slices"

	"kelson.dev/operator/client"
)

// Events that cause a reconcile.
const (
	Add    = "add"    // an object was seen for the first time
	Update = "update" // an object changed
	Delete = "delete" // an object was deleted
	Sync   = "sync"   // an object existed when the controller started
	Resync = "resync" // periodic repetition for all objects
	Retry  = "retry"  // the previous reconcile returned an error
	After  = "after"  // the previous reconcile requested it
	Other  = "other"  // an event outside of the API server
)

// Cause is an event that queued an object. Kind and Key are those of the object that the event is
// about, which can be different from the reconciled one; they are empty for Retry and After.
type Cause struct {
	Event           string
	Cluster         string // of the object, as in reconcile.Request
	Kind            string
	Key             client.Key
	ResourceVersion string
	// By is the ID of the reconcile that made the change; 0 if no reconcile of this process made
	// it, or if it was made too long ago.
	By uint64
	// Manager is the field manager that made the change, from managedFields: the name of an
	// operator, or of a tool such as kubectl-edit. It is empty if unknown.
	Manager string
	// Fields are the changed fields, such as "spec.replicas, status.phase"; only for objects that
	// change suspiciously often.
	Fields string
}

// Causes is the merged, bounded set of events that led to a reconcile. The zero value is empty.
type Causes struct {
	list []Cause
	more int32
	own  bool // Merge allocated list, so the next Merge may modify it
}

// maxCauses bounds the causes kept per reconcile.
const maxCauses = 16

// Because returns a set of causes.
func Because(causes ...Cause) Causes {
	if len(causes) == 1 {
		return Causes{list: causes} // the common case
	}
	return Causes{}.Merge(Causes{list: causes})
}

// Merge returns the union of two sets, the older first. Of several events about one object it keeps
// the newest, and After only if there is no other cause. The caller must not use c afterwards.
func (c Causes) Merge(newer Causes) Causes {
	merged := Causes{list: c.list, more: c.more + newer.more, own: true}
	if !c.own {
		merged.list = append(make([]Cause, 0, len(c.list)+len(newer.list)), c.list...)
	}
	if len(newer.list) > 0 {
		// The reconcile happens now because of the new event, not because of the timer.
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
				n.Event = merged.list[i].Event // the object is still new to the controller
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

// succeeds reports whether event n makes event o about the same object redundant.
func succeeds(n, o Cause) bool {
	return n.Event == o.Event || n.Kind != "" && o.Kind != ""
}

// All returns the causes that were kept, oldest first. Callers must not modify them.
func (c Causes) All() []Cause { return c.list }

// More returns the number of causes that were not kept.
func (c Causes) More() int { return int(c.more) }
