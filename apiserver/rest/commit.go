package rest

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// unwritten is the placeholder for the resourceVersion in the bytes of a new object. The store replaces it in place, so that
// resourceVersion is where the encoder puts it and encodings can be compared.
const unwritten = "1"

// commit stores a hub and extra operations atomically. op has the key and the expected revision.
// commit sets the new resourceVersion on the hub.
func (h *Handler) commit(ctx context.Context, res *resource.Resource, op store.Op, hub runtime.Object, extra []store.Op) (*store.Object, error) {
	if op.Data == nil {
		data, err := encode(res, hub, unwritten)
		if err != nil {
			return nil, err
		}
		op.Data = data
	}
	objs, err := h.write(ctx, append([]store.Op{op}, extra...)...)
	if err != nil {
		return nil, err
	}
	if object, err := meta.Accessor(hub); err == nil {
		object.SetResourceVersion(revisionString(objs[0].Revision))
	}
	return objs[0], nil
}

// encode returns the bytes to store for a hub, with a resourceVersion.
func encode(res *resource.Resource, hub runtime.Object, revision string) ([]byte, error) {
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	object.SetSelfLink("")
	before := object.GetResourceVersion()
	object.SetResourceVersion(revision)
	defer object.SetResourceVersion(before)
	return res.Codec.Store(hub)
}

// pretend returns the object for the response of a dry run: as it would be stored, with the revision at which it was read.
func pretend(res *resource.Resource, key store.Key, hub runtime.Object, current *store.Object) (*store.Object, error) {
	obj := &store.Object{Key: key}
	revision := ""
	if current != nil {
		obj.Revision, obj.Created, obj.Head = current.Revision, current.Created, current.Head
		revision = revisionString(current.Revision)
	}
	var err error
	obj.Data, err = encode(res, hub, revision)
	return obj, err
}

// after runs AfterCommit for a visible write.
func after(ctx context.Context, res *resource.Resource, hub, old runtime.Object, revision uint64) {
	if res.Hooks != nil && res.Hooks.AfterCommit != nil {
		res.Hooks.AfterCommit(ctx, hub, old, revision)
	}
}
