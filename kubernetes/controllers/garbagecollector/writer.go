package garbagecollector

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/aggregated"
	"kelson.dev/operator/client"
)

// writer changes the objects of a resource, in this server or in another one.
type writer interface {
	namespaced() bool
	// update changes the metadata of this object, identified by its uid. It ignores objects that
	// are already gone.
	update(ctx context.Context, obj *store.Object, change func(metav1.Object)) error
	// delete deletes this object in this state. The precondition on the revision protects an object
	// whose references changed meanwhile.
	delete(ctx context.Context, obj *store.Object, policy metav1.DeletionPropagation) error
}

// writer returns the writer of a resource. It reports false if the resource is not served.
func (c *Collector) writer(name string) (writer, bool) {
	if isRemote(name) {
		kind, ok := c.mirror.kind(name)
		return remote{c.cfg.Servers, kind}, ok
	}
	res, ok := c.cfg.Registry.Current().ByPrefix(name)
	return local{c.cfg.Objects, res}, ok
}

// local is the store of this server.
type local struct {
	objects resource.Objects
	res     *resource.Resource
}

func (l local) namespaced() bool { return l.res.Namespaced }

func (l local) update(ctx context.Context, obj *store.Object, change func(metav1.Object)) error {
	_, err := l.objects.Update(ctx, l.res, obj.Key.Namespace, obj.Key.Name, nil, false, func(hub runtime.Object) error {
		object, err := meta.Accessor(hub)
		if err != nil {
			return err
		}
		if object.GetUID() != obj.Head.UID {
			return apierrors.NewNotFound(l.res.GroupResource(), obj.Key.Name)
		}
		before := hub.DeepCopyObject()
		change(object)
		return l.res.Own(before, hub, l.servedVersion(), "", "kelson-controllers")
	})
	return client.IgnoreNotFound(err)
}

// servedVersion returns the version of managedFields: the storage version, if it is served.
func (l local) servedVersion() string {
	if _, served := l.res.Serves(l.res.StorageVersion); !served && len(l.res.Versions) > 0 {
		return l.res.Versions[0].Name
	}
	return l.res.StorageVersion
}

func (l local) delete(ctx context.Context, obj *store.Object, policy metav1.DeletionPropagation) error {
	_, err := l.objects.Delete(ctx, l.res, obj.Key.Namespace, obj.Key.Name, deleteOptions(obj, strconv.FormatUint(obj.Revision, 10), policy))
	return client.IgnoreNotFound(err)
}

func deleteOptions(obj *store.Object, version string, policy metav1.DeletionPropagation) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &obj.Head.UID, ResourceVersion: &version},
		PropagationPolicy: &policy,
	}
}

// remote is another server.
type remote struct {
	servers *aggregated.Servers
	kind    aggregated.Kind
}

func (r remote) namespaced() bool { return r.kind.Namespaced }

// update sends a merge patch, which every server supports, on condition that the object still has
// this version.
func (r remote) update(ctx context.Context, obj *store.Object, change func(metav1.Object)) error {
	before, err := metadataOf(obj)
	if err != nil {
		return err
	}
	now := before.DeepCopy()
	change(now)
	fields := map[string]any{"uid": before.UID, "resourceVersion": before.ResourceVersion}
	if !slices.EqualFunc(before.OwnerReferences, now.OwnerReferences, sameReference) {
		fields["ownerReferences"] = now.OwnerReferences
	}
	if !slices.Equal(before.Finalizers, now.Finalizers) {
		fields["finalizers"] = now.Finalizers
	}
	if len(fields) == 2 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return err
	}
	at, err := r.servers.Client(r.kind.GroupVersionResource, obj.Key.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, aggregated.Timeout)
	defer cancel()
	_, err = at.Patch(ctx, obj.Key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return client.IgnoreNotFound(err)
}

func sameReference(a, b metav1.OwnerReference) bool {
	flag := func(p *bool) bool { return p != nil && *p }
	return a.UID == b.UID && flag(a.BlockOwnerDeletion) == flag(b.BlockOwnerDeletion)
}

func (r remote) delete(ctx context.Context, obj *store.Object, policy metav1.DeletionPropagation) error {
	stored, err := metadataOf(obj)
	if err != nil {
		return err
	}
	at, err := r.servers.Client(r.kind.GroupVersionResource, obj.Key.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, aggregated.Timeout)
	defer cancel()
	return client.IgnoreNotFound(at.Delete(ctx, obj.Key.Name, *deleteOptions(obj, stored.ResourceVersion, policy)))
}
