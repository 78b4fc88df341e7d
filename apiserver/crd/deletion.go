package crd

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// startRemoval starts a goroutine that deletes a definition's instances and then the definition,
// unless one is running. It reports errors in the Terminating condition and retries.
func (r *runner) startRemoval(ctx context.Context, name string) {
	r.retry(ctx, r.removing, name, func() error { return r.remove(ctx, name) })
}

// remove deletes the instances of a definition that is being deleted, then its finalizer.
func (r *runner) remove(ctx context.Context, name string) error {
	obj := r.store.Snapshot().Get(r.resource.Key("", name))
	if obj == nil {
		return nil
	}
	hub, err := r.resource.Codec.Load(obj.Data)
	if err != nil {
		return fmt.Errorf("load definition %s: %w", name, err)
	}
	crd := hub.(*apiextensions.CustomResourceDefinition)
	if crd.DeletionTimestamp.IsZero() || !apiextensions.CRDHasFinalizer(crd,
		apiextensions.CustomResourceCleanupFinalizer) {
		return nil
	}

	reason, message := "InstanceDeletionCompleted", "removed all instances"
	k := r.kindFor(name)
	switch {
	case !apiextensions.IsCRDConditionTrue(crd, apiextensions.Established):
		reason, message = "NeverEstablished", "resource was never established"
	case k == nil:
		reason, message = "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"
	default:
		if err := r.terminating(ctx, name, "InstanceDeletionInProgress",
			"CustomResource deletion is in progress"); err != nil {
			return err
		}
		if err := r.removeInstances(ctx, k.resource); err != nil {
			if ctx.Err() == nil {
				_ = r.terminating(ctx, name, "InstanceDeletionFailed",
					fmt.Sprintf("could not issue all deletes: %v", err))
			}
			return err
		}
	}
	return r.updateStatus(ctx, name, func(crd *apiextensions.CustomResourceDefinition) {
		setTerminating(crd, false, reason, message)
		apiextensions.CRDRemoveFinalizer(crd, apiextensions.CustomResourceCleanupFinalizer)
	})
}

func (r *runner) terminating(ctx context.Context, name, reason, message string) error {
	return r.updateStatus(ctx, name, func(crd *apiextensions.CustomResourceDefinition) {
		setTerminating(crd, true, reason, message)
	})
}

// removeInstances deletes every instance and returns when all have been removed. Finalizers of
// instances can delay it without bound.
func (r *runner) removeInstances(ctx context.Context, res *resource.Resource) error {
	for {
		snapshot := r.store.Snapshot()
		if snapshot.Count(res.Prefix(), "") == 0 {
			return nil
		}
		for obj := range snapshot.Scan(res.Prefix(), "", store.Key{}) {
			if obj.Head.DeletionTimestamp.IsZero() {
				if err := r.removeInstance(ctx, res, obj); err != nil {
					return err
				}
			}
		}
		if err := r.store.Await(ctx, snapshot.Revision(), res.Prefix()); err != nil {
			return err
		}
	}
}

func (r *runner) removeInstance(ctx context.Context, res *resource.Resource, obj *store.Object) error {
	_, err := r.objects().Delete(ctx, res, obj.Key.Namespace, obj.Key.Name, &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &obj.Head.UID},
	})
	if now := r.store.Snapshot().Get(obj.Key); now == nil || now.Head.UID != obj.Head.UID ||
		errors.Is(err, context.Canceled) {
		return nil // deleted or recreated meanwhile: removeInstances checks again
	}
	return err
}
