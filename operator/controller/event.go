package controller

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Event is a change that a source saw. The objects are shared and must not be changed.
type Event struct {
	// Type is one of trace.Add, Update, Delete, Sync, Resync, Other.
	Type string
	// Object is the object as it is now, or was before its deletion. It may be nil for Other.
	Object client.Object
	// Old is the object before an Update, else nil.
	Old client.Object
}

// Predicate says whether an event matters.
type Predicate func(Event) bool

// EventHandler names the objects that an event concerns, by calling enqueue for each.
type EventHandler func(e Event, enqueue func(reconcile.Request))

// EnqueueObject is the EventHandler of a controller's own kind: the object of the event is the one to reconcile.
func EnqueueObject(e Event, enqueue func(reconcile.Request)) {
	enqueue(reconcile.Request{NamespacedName: client.KeyOf(e.Object)})
}

// EnqueueMapped makes an EventHandler of a function that names the objects which depend on the one of the event. Of an update, the
// object before and after are asked.
func EnqueueMapped(which func(client.Object) []reconcile.Request) EventHandler {
	return func(e Event, enqueue func(reconcile.Request)) {
		if e.Old != nil {
			for _, r := range which(e.Old) {
				enqueue(r)
			}
		}
		for _, r := range which(e.Object) {
			enqueue(r)
		}
	}
}

// GenerationChanged drops updates that leave the specification as it was, such as those of the status. It lets those pass that begin
// the deletion, or touch an object whose kind counts no generations.
func GenerationChanged(e Event) bool {
	return e.Old == nil || e.Object.GetGeneration() == 0 || e.Old.GetGeneration() != e.Object.GetGeneration() ||
		e.Old.GetDeletionTimestamp().IsZero() != e.Object.GetDeletionTimestamp().IsZero()
}

// ResourceVersionChanged drops updates that are none.
func ResourceVersionChanged(e Event) bool {
	return e.Old == nil || e.Old.GetResourceVersion() != e.Object.GetResourceVersion()
}

// InNamespace drops events about objects elsewhere.
func InNamespace(namespace string) Predicate {
	return func(e Event) bool { return e.Object.GetNamespace() == namespace }
}

// And is true when all are.
func And(predicates ...Predicate) Predicate {
	return func(e Event) bool {
		for _, p := range predicates {
			if !p(e) {
				return false
			}
		}
		return true
	}
}

// Or is true when one is.
func Or(predicates ...Predicate) Predicate {
	return func(e Event) bool {
		for _, p := range predicates {
			if p(e) {
				return true
			}
		}
		return false
	}
}

// Not is true when p is not.
func Not(p Predicate) Predicate { return func(e Event) bool { return !p(e) } }

// Why is the cause of what comes from outside the API server, in a few words.
func Why(what string) trace.Causes {
	return trace.Because(trace.Cause{Event: trace.Other, Key: client.Key{Name: what}})
}

// AnnotationsChanged drops updates that leave the annotations as they were.
func AnnotationsChanged(e Event) bool {
	return e.Old == nil || !maps.Equal(e.Old.GetAnnotations(), e.Object.GetAnnotations())
}

// LabelsChanged drops updates that leave the labels as they were.
func LabelsChanged(e Event) bool {
	return e.Old == nil || !maps.Equal(e.Old.GetLabels(), e.Object.GetLabels())
}

// Selected drops events about objects that a selector does not select. An update passes if it selects the object before or after: an
// object that is selected no longer is news.
func Selected(s labels.Selector) Predicate {
	return func(e Event) bool {
		return s.Matches(labels.Set(e.Object.GetLabels())) || e.Old != nil && s.Matches(labels.Set(e.Old.GetLabels()))
	}
}

// On drops events of other types than those given, which are trace.Add, Update, Delete, Sync, Resync, Other.
func On(types ...string) Predicate {
	return func(e Event) bool { return slices.Contains(types, e.Type) }
}
