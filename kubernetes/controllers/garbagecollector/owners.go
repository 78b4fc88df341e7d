package garbagecollector

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/aggregated"
)

// ownerState is the state of an owner.
type ownerState int

const (
	gone    ownerState = iota
	waiting            // for its dependents to be deleted
	solid
)

// owners divides the owners' uids into those of existing owners (solid), of owners that wait for
// the deletion of their dependents, and of deleted owners.
func (c *Collector) owners(ctx context.Context, g graph, at writer,
	obj *store.Object) (living, deleting, absent []types.UID, err error) {
	for _, ref := range obj.Head.Owners {
		state, err := c.owner(ctx, g, at, obj, ref)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case state == gone:
			absent = append(absent, ref.UID)
		case state == waiting:
			deleting = append(deleting, ref.UID)
		default:
			living = append(living, ref.UID)
		}
	}
	return living, deleting, absent, nil
}

// owner returns the state of an owner. As for every request, another server's group version has
// precedence over that of this server.
func (c *Collector) owner(ctx context.Context, g graph, at writer, obj *store.Object,
	ref store.Owner) (ownerState, error) {
	gk, version := groupKind(ref.APIVersion, ref.Kind)
	if gvk := gk.WithVersion(version); c.cfg.Servers.Serve(gvk.GroupVersion()) {
		return c.remoteOwner(ctx, g, at, obj, gvk, ref)
	}
	kind, ok := c.cfg.Registry.Current().ByKind(gk)
	if ok {
		_, ok = kind.Serves(version)
	}
	if !ok {
		return gone, errUnresolved
	}
	key := kind.Key("", ref.Name)
	if kind.Namespaced {
		c.reportNamespace(g, obj, ref)
		if !at.namespaced() {
			return c.keepUnfindable(obj, ref), nil
		}
		key.Namespace = obj.Key.Namespace
	}
	owner := g.sn.Get(key)
	if owner == nil || owner.Head.UID != ref.UID {
		return gone, nil
	}
	return ownerStateOf(owner), nil
}

func ownerStateOf(owner *store.Object) ownerState {
	if waitsForDependents(owner) {
		return waiting
	}
	return solid
}

// reportNamespace records Kubernetes' Event about an object of this server whose owner is in
// another namespace.
func (c *Collector) reportNamespace(g graph, obj *store.Object, ref store.Owner) {
	owner := g.byUID(ref.UID)
	if owner == nil || owner.Key.Namespace == "" || owner.Key.Namespace == obj.Key.Namespace {
		return
	}
	res, ok := c.cfg.Registry.Current().ByPrefix(obj.Key.Resource)
	if !ok {
		return
	}
	about := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.Key.Namespace, Name: obj.Key.Name, UID: obj.Head.UID,
			ResourceVersion: strconv.FormatUint(obj.Revision, 10)},
	}
	about.SetGroupVersionKind(schema.GroupVersionKind{Group: res.Group, Version: res.StorageVersion, Kind: res.Kind})
	c.events.Recorder("garbage-collector-controller").Eventf(about, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q", ref.APIVersion, ref.Kind,
		obj.Key.Namespace, ref.Name, ref.UID, obj.Key.Namespace)
}

// keepUnfindable keeps a cluster-scoped object with a namespaced owner: a reference names no
// namespace, so the owner can't be found.
func (c *Collector) keepUnfindable(obj *store.Object, ref store.Owner) ownerState {
	c.cfg.Log.Warn("cluster-scoped object has a namespaced owner; it is never collected",
		"resource", obj.Key.Resource, "name", obj.Key.Name, "owner", ref.Kind+"/"+ref.Name)
	return solid
}

// remoteOwner returns the state of an owner in another server. Only a response of the server proves
// that the owner does not exist: the mirror may be behind, or not contain the resource.
func (c *Collector) remoteOwner(ctx context.Context, g graph, at writer, obj *store.Object, gvk schema.GroupVersionKind,
	ref store.Owner) (ownerState, error) {
	kind, ok := c.cfg.Servers.Find(gvk)
	if !ok {
		return gone, errUnresolved
	}
	namespace := ""
	if kind.Namespaced {
		if !at.namespaced() {
			return c.keepUnfindable(obj, ref), nil
		}
		namespace = obj.Key.Namespace
	}
	if owner := g.mirror.find(ref.UID); owner != nil && owner.Key.Name == ref.Name && owner.Key.Namespace == namespace {
		return ownerStateOf(owner), nil
	}
	client, err := c.cfg.Servers.Client(kind.GroupVersionResource, namespace)
	if err != nil {
		return gone, err
	}
	ctx, cancel := context.WithTimeout(ctx, aggregated.Timeout)
	defer cancel()
	found, err := client.Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case err != nil:
		return gone, err
	case found.UID != ref.UID:
		return gone, nil
	}
	owner, err := objectOf(resourceOf(kind.GroupVersionResource), found)
	if err != nil {
		return gone, err
	}
	return ownerStateOf(owner), nil
}
