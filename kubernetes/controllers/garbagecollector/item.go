package garbagecollector

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/operator/workqueue"
)

// errUnresolved is returned for objects with an owner, or of a kind, that is not served.
var errUnresolved = errors.New("kind of an owner is not served")

func newQueue() *workqueue.Queue[item, struct{}] {
	return workqueue.New(workqueue.Config[item, struct{}]{})
}

// collect processes one object: it compares the newest state with the object's owners and
// finalizers, and deletes, orphans or updates.
func (c *Collector) collect(ctx context.Context, target item) error {
	g := c.graph()
	obj := g.get(target.key)
	if obj == nil || obj.Head.UID != target.uid {
		return nil
	}
	at, ok := c.writer(target.key.Resource)
	if !ok {
		return errUnresolved
	}
	switch {
	case orphansDependents(obj):
		return c.orphan(ctx, g, at, obj)
	case waitsForDependents(obj):
		return c.foreground(ctx, g, at, obj)
	case !obj.Head.DeletionTimestamp.IsZero() || len(obj.Head.Owners) == 0:
		return nil
	}

	solid, waiting, gone, err := c.owners(ctx, g, at, obj)
	if err != nil {
		return err
	}
	switch {
	case len(solid) > 0:
		if len(waiting)+len(gone) == 0 {
			return nil
		}
		// The object stays because it has solid owners. Remove the other references: owners that
		// are deleted in the foreground must not wait for this object, and deleted owners must not
		// become its owners again.
		return at.update(ctx, obj, func(object metav1.Object) {
			dropReferences(object, append(waiting, gone...)...)
		})
	case len(waiting) > 0:
		return c.deleteWithDependents(ctx, g, at, obj)
	default:
		return at.delete(ctx, obj, keptPolicy(obj))
	}
}

// deleteWithDependents deletes an object whose owner waits for it, its own dependents first. If one
// of these already waits for its dependents, the objects may form a cycle; the object then stops
// blocking its owners, because otherwise no object of the cycle could be deleted.
func (c *Collector) deleteWithDependents(ctx context.Context, g graph, at writer, obj *store.Object) error {
	dependents := slices.Collect(g.dependents(obj.Head.UID))
	if len(dependents) == 0 {
		return at.delete(ctx, obj, keptPolicy(obj))
	}
	if slices.ContainsFunc(dependents, waitsForDependents) {
		err := at.update(ctx, obj, func(object metav1.Object) {
			refs := object.GetOwnerReferences()
			for i := range refs {
				refs[i].BlockOwnerDeletion = new(bool)
			}
			object.SetOwnerReferences(refs)
		})
		if err != nil {
			return err
		}
	}
	return at.delete(ctx, obj, metav1.DeletePropagationForeground)
}

// keptPolicy returns the propagation policy that the object's finalizers already request.
func keptPolicy(obj *store.Object) metav1.DeletionPropagation {
	switch {
	case hasFinalizer(obj, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case hasFinalizer(obj, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// foreground removes the foregroundDeletion finalizer of a waiting owner when no dependent blocks
// it any longer.
func (c *Collector) foreground(ctx context.Context, g graph, at writer, obj *store.Object) error {
	blocked := false
	for dependent := range g.dependents(obj.Head.UID) {
		for _, ref := range dependent.Head.Owners {
			if ref.UID == obj.Head.UID && ref.BlockOwnerDeletion {
				blocked = true
				if !waitsForDependents(dependent) {
					c.queue.Add(itemOf(dependent), struct{}{})
				}
			}
		}
	}
	if blocked {
		return nil // the event of the dependent's deletion queues this owner again
	}
	return c.removeFinalizer(ctx, at, obj, metav1.FinalizerDeleteDependents)
}

// orphan removes the owner from its dependents' references, and then removes the orphan finalizer.
func (c *Collector) orphan(ctx context.Context, g graph, at writer, obj *store.Object) error {
	for dependent := range g.dependents(obj.Head.UID) {
		its, ok := c.writer(dependent.Key.Resource)
		if !ok {
			return errUnresolved
		}
		err := its.update(ctx, dependent, func(object metav1.Object) { dropReferences(object, obj.Head.UID) })
		if err != nil {
			return err
		}
	}
	return c.removeFinalizer(ctx, at, obj, metav1.FinalizerOrphanDependents)
}

func (c *Collector) removeFinalizer(ctx context.Context, at writer, obj *store.Object, name string) error {
	return at.update(ctx, obj, func(object metav1.Object) {
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == name }))
	})
}

func dropReferences(object metav1.Object, uids ...types.UID) {
	object.SetOwnerReferences(slices.DeleteFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return slices.Contains(uids, ref.UID)
	}))
}
