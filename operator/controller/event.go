package controller

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Event is a change reported by a source. The objects are shared and must not be modified.
type Event struct {
	// Type is one of trace.Add, Update, Delete, Sync, Resync, Other.
	Type string
	// Object is the current object, or its last state before a deletion. It may be nil for Other.
	Object client.Object
	// Old is the object before an Update, otherwise nil.
	Old client.Object
}

// Predicate reports whether an event matters.
type Predicate func(Event) bool

// EventHandler calls enqueue for each object that an event concerns.
type EventHandler func(e Event, enqueue func(reconcile.Request))

// EnqueueObject is the EventHandler for a controller's own kind: it enqueues the object of the
// event.
func EnqueueObject(e Event, enqueue func(reconcile.Request)) {
	enqueue(reconcile.Request{NamespacedName: client.KeyOf(e.Object)})
}

// EnqueueMapped returns an EventHandler that calls toRequests with the object of the event, and
// enqueues the returned requests. For an update, it calls toRequests for the old and the new
// object.
func EnqueueMapped(toRequests func(client.Object) []reconcile.Request) EventHandler {
	return func(e Event, enqueue func(reconcile.Request)) {
		if e.Old != nil {
			for _, r := range toRequests(e.Old) {
				enqueue(r)
			}
		}
		for _, r := range toRequests(e.Object) {
			enqueue(r)
		}
	}
}

// GenerationChanged drops updates that leave the generation unchanged, such as status updates. It
// accepts updates that start the deletion, and updates to objects without a generation.
func GenerationChanged(e Event) bool {
	return e.Old == nil || e.Object.GetGeneration() == 0 || e.Old.GetGeneration() != e.Object.GetGeneration() ||
		e.Old.GetDeletionTimestamp().IsZero() != e.Object.GetDeletionTimestamp().IsZero()
}

// ResourceVersionChanged drops updates that changed nothing, such as those of a resync.
func ResourceVersionChanged(e Event) bool {
	return e.Old == nil || e.Old.GetResourceVersion() != e.Object.GetResourceVersion()
}

// InNamespace drops events about objects in other namespaces.
func InNamespace(namespace string) Predicate {
	return func(e Event) bool { return e.Object.GetNamespace() == namespace }
}

// And returns a Predicate that accepts an event if all predicates do.
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

// Or returns a Predicate that accepts an event if any of the predicates does.
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

// Not returns a Predicate that accepts an event if p does not.
func Not(p Predicate) Predicate { return func(e Event) bool { return !p(e) } }

// Why returns the cause of a request from outside of the API server, described in a few words.
func Why(what string) trace.Causes {
	return trace.Because(trace.Cause{Event: trace.Other, Key: client.Key{Name: what}})
}

// AnnotationsChanged drops updates that leave the annotations unchanged.
func AnnotationsChanged(e Event) bool {
	return e.Old == nil || !maps.Equal(e.Old.GetAnnotations(), e.Object.GetAnnotations())
}

// LabelsChanged drops updates that leave the labels unchanged.
func LabelsChanged(e Event) bool {
	return e.Old == nil || !maps.Equal(e.Old.GetLabels(), e.Object.GetLabels())
}

// Selected drops events about objects that a selector does not match. It accepts an update if the
// selector matches the old or the new object, so that reconcilers learn that an object no longer
// matches.
func Selected(s labels.Selector) Predicate {
	return func(e Event) bool {
		return s.Matches(labels.Set(e.Object.GetLabels())) || e.Old != nil && s.Matches(labels.Set(e.Old.GetLabels()))
	}
}

// On drops events with types other than the given ones, which are trace.Add, Update, Delete, Sync,
// Resync, Other.
func On(types ...string) Predicate {
	return func(e Event) bool { return slices.Contains(types, e.Type) }
}
