package garbagecollector

import (
	"context"
	"errors"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/operator/client"
	"kelson.dev/operator/workqueue"
)

// errUnresolved is returned for objects with an owner, or of a kind, that is not served.
var errUnresolved = errors.New("kind of an owner is not served")

func newQueue() *workqueue.Queue[item, struct{}] {
	return workqueue.New(workqueue.Config[item, struct{}]{})
}

// asCollector returns the context of the collector's own requests, with Kubernetes' user name for
// it.
func asCollector(ctx context.Context) context.Context {
	return request.WithUser(ctx, &user.DefaultInfo{
		Name:   "system:serviceaccount:kube-system:generic-garbage-collector",
		Groups: []string{user.SystemPrivilegedGroup, "system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
	})
}

// collect processes one object: it compares the newest state with the object's owners and
// finalizers, and deletes, orphans or updates.
func (c *Collector) collect(ctx context.Context, it item) error {
	sn := c.cfg.Store.Snapshot()
	obj := sn.Get(it.key)
	if obj == nil || obj.Head.UID != it.uid {
		return nil
	}
	res, ok := c.cfg.Registry.Current().ByPrefix(it.key.Resource)
	if !ok {
		return errUnresolved
	}
	switch {
	case orphansDependents(obj):
		return c.orphan(ctx, sn, res, obj)
	case waitsForDependents(obj):
		return c.foreground(ctx, sn, res, obj)
	case !obj.Head.DeletionTimestamp.IsZero() || len(obj.Head.Owners) == 0:
		return nil
	}

	solid, waiting, gone, err := c.owners(sn, res, obj)
	if err != nil {
		return err
	}
	switch {
	case len(solid) > 0:
		if len(waiting)+len(gone) == 0 {
			return nil
		}
		// The object stays because of its solid owners. Remove the others: those that are deleted
		// in the foreground must not wait for it, and those that are gone must not become its
		// owners again.
		return c.update(ctx, res, obj, func(object metav1.Object) {
			dropReferences(object, append(waiting, gone...)...)
		})
	case len(waiting) > 0:
		return c.deleteWithDependents(ctx, sn, res, obj)
	default:
		return c.delete(ctx, res, obj, keptPolicy(obj))
	}
}

// owners divides the owners' uids into those that live (solid), those that wait for their
// dependents to be deleted, and those that are gone.
func (c *Collector) owners(sn *store.Snapshot, res *resource.Resource, obj *store.Object) (solid, waiting, gone []types.UID, err error) {
	kinds := c.cfg.Registry.Current()
	for _, ref := range obj.Head.Owners {
		gk, version := groupKind(ref.APIVersion, ref.Kind)
		kind, ok := kinds.ByKind(gk)
		if ok {
			_, ok = kind.Serves(version)
		}
		if !ok {
			return nil, nil, nil, errUnresolved
		}
		key := kind.Key("", ref.Name)
		if kind.Namespaced {
			if !res.Namespaced {
				// A reference names no namespace, so the namespaced owner of a cluster-scoped
				// object can't be found.
				c.cfg.Log.Warn("cluster-scoped object has a namespaced owner; it is never collected",
					"resource", obj.Key.Resource, "name", obj.Key.Name, "owner", ref.Kind+"/"+ref.Name)
				solid = append(solid, ref.UID)
				continue
			}
			key.Namespace = obj.Key.Namespace
		}
		owner := sn.Get(key)
		switch {
		case owner == nil || owner.Head.UID != ref.UID:
			gone = append(gone, ref.UID)
		case waitsForDependents(owner):
			waiting = append(waiting, ref.UID)
		default:
			solid = append(solid, ref.UID)
		}
	}
	return solid, waiting, gone, nil
}

// deleteWithDependents deletes an object whose owner waits for it, its own dependents first. If one
// of these already waits for its dependents, the objects may form a cycle; the object then stops
// blocking its owners, because otherwise no object of the cycle could be deleted.
func (c *Collector) deleteWithDependents(ctx context.Context, sn *store.Snapshot, res *resource.Resource, obj *store.Object) error {
	dependents := slices.Collect(sn.Dependents(obj.Head.UID))
	if len(dependents) == 0 {
		return c.delete(ctx, res, obj, keptPolicy(obj))
	}
	if slices.ContainsFunc(dependents, waitsForDependents) {
		err := c.update(ctx, res, obj, func(object metav1.Object) {
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
	return c.delete(ctx, res, obj, metav1.DeletePropagationForeground)
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
func (c *Collector) foreground(ctx context.Context, sn *store.Snapshot, res *resource.Resource, obj *store.Object) error {
	blocked := false
	for dependent := range sn.Dependents(obj.Head.UID) {
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
	return c.removeFinalizer(ctx, res, obj, metav1.FinalizerDeleteDependents)
}

// orphan removes the owner from its dependents' references, and then removes the orphan finalizer.
func (c *Collector) orphan(ctx context.Context, sn *store.Snapshot, res *resource.Resource, obj *store.Object) error {
	for dependent := range sn.Dependents(obj.Head.UID) {
		kind, ok := c.cfg.Registry.Current().ByPrefix(dependent.Key.Resource)
		if !ok {
			return errUnresolved
		}
		err := c.update(ctx, kind, dependent, func(object metav1.Object) { dropReferences(object, obj.Head.UID) })
		if err != nil {
			return err
		}
	}
	return c.removeFinalizer(ctx, res, obj, metav1.FinalizerOrphanDependents)
}

func (c *Collector) removeFinalizer(ctx context.Context, res *resource.Resource, obj *store.Object, name string) error {
	return c.update(ctx, res, obj, func(object metav1.Object) {
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == name }))
	})
}

func dropReferences(object metav1.Object, uids ...types.UID) {
	object.SetOwnerReferences(slices.DeleteFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return slices.Contains(uids, ref.UID)
	}))
}

// update changes the metadata of this object, identified by its uid. It ignores objects that are
// already gone.
func (c *Collector) update(ctx context.Context, res *resource.Resource, obj *store.Object, change func(metav1.Object)) error {
	_, err := c.cfg.Objects.Update(ctx, res, obj.Key.Namespace, obj.Key.Name, nil, false, func(hub runtime.Object) error {
		object, err := meta.Accessor(hub)
		if err != nil {
			return err
		}
		if object.GetUID() != obj.Head.UID {
			return apierrors.NewNotFound(res.GroupResource(), obj.Key.Name)
		}
		change(object)
		return nil
	})
	return client.IgnoreNotFound(err)
}

// delete deletes this object in this state. The precondition on the revision protects an object
// whose references changed meanwhile.
func (c *Collector) delete(ctx context.Context, res *resource.Resource, obj *store.Object, policy metav1.DeletionPropagation) error {
	revision := strconv.FormatUint(obj.Revision, 10)
	_, err := c.cfg.Objects.Delete(ctx, res, obj.Key.Namespace, obj.Key.Name, &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &obj.Head.UID, ResourceVersion: &revision},
		PropagationPolicy: &policy,
	})
	return client.IgnoreNotFound(err)
}
