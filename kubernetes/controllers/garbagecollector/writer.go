package garbagecollector

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/aggregated"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/kubernetes/controllers/objects"
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
	return local{c.cfg.Store, c.cfg.Objects, res}, ok
}

// local is the store of this server. It writes through the API, so that admission and audit apply.
type local struct {
	store   *store.Store
	objects *objects.Client
	res     *resource.Resource
}

func (l local) namespaced() bool { return l.res.Namespaced }

// conflicts is how often update computes a patch for a newer state before the item is queued again.
const conflicts = 5

func (l local) update(ctx context.Context, obj *store.Object, change func(metav1.Object)) error {
	for attempt := 1; ; attempt++ {
		patch, err := metadataPatch(obj, change)
		if err != nil || patch == nil {
			return err
		}
		err = l.objects.Patch(ctx, l.res, obj.Key.Namespace, obj.Key.Name, patch)
		if !apierrors.IsConflict(err) || attempt == conflicts {
			return follow.IgnoreGone(l.store, obj.Key, obj.Head.UID, err)
		}
		newer := l.store.Snapshot().Get(obj.Key)
		if newer == nil || newer.Head.UID != obj.Head.UID {
			return nil
		}
		if newer.Revision == obj.Revision {
			return err // the conflict has another cause
		}
		obj = newer
	}
}

func (l local) delete(ctx context.Context, obj *store.Object, policy metav1.DeletionPropagation) error {
	err := l.objects.Delete(ctx, l.res, obj.Key.Namespace, obj.Key.Name,
		deleteOptions(obj, strconv.FormatUint(obj.Revision, 10), policy))
	return follow.IgnoreGone(l.store, obj.Key, obj.Head.UID, err)
}

func deleteOptions(obj *store.Object, version string, policy metav1.DeletionPropagation) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &obj.Head.UID, ResourceVersion: &version},
		PropagationPolicy: &policy,
	}
}

// metadataPatch returns a merge patch, which every server supports, for a change of the metadata of
// an object, or nil if nothing changes. The patch fails if the object has another version.
func metadataPatch(obj *store.Object, change func(metav1.Object)) ([]byte, error) {
	before, err := metadataOf(obj)
	if err != nil {
		return nil, err
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
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": fields})
}

// remote is another server.
type remote struct {
	servers *aggregated.Servers
	kind    aggregated.Kind
}

func (r remote) namespaced() bool { return r.kind.Namespaced }

func (r remote) update(ctx context.Context, obj *store.Object, change func(metav1.Object)) error {
	patch, err := metadataPatch(obj, change)
	if err != nil || patch == nil {
		return err
	}
	at, err := r.servers.Client(r.kind.GroupVersionResource, obj.Key.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, aggregated.Timeout)
	defer cancel()
	_, err = at.Patch(ctx, obj.Key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return r.ignoreGone(ctx, at, obj, err)
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
	return r.ignoreGone(ctx, at, obj, at.Delete(ctx, obj.Key.Name, *deleteOptions(obj, stored.ResourceVersion, policy)))
}

// ignoreGone returns nil for an error NotFound of a write if the object does not exist any longer.
// The server is asked, because the error can name another object.
func (r remote) ignoreGone(ctx context.Context, at metadata.ResourceInterface, obj *store.Object, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	found, absent := at.Get(ctx, obj.Key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(absent) || absent == nil && found.UID != obj.Head.UID {
		return nil
	}
	return err
}
