package rest

import (
	"cmp"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"

	"kelson.dev/apiserver/fastpath/trees"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// lockError is the message of every 409 of optimistic concurrency.
const lockError = "the object has been modified; please apply your changes to the latest version and try again"

// change is an update of one stored object, carried out by replace.
type change struct {
	res      *resource.Resource
	key      store.Key
	strategy upstream.RESTUpdateStrategy
	// createMissing creates a missing object even if the strategy does not allow it (server-side
	// apply).
	createMissing bool
	dryRun        bool
	applied       bool      // the request is an apply, which needs managedFields
	uid           types.UID // precondition; "": none
	// next computes the new state from the current one, once per attempt. For a missing object, old
	// is an empty hub and current is nil. It must not change old.
	next func(ctx context.Context, old runtime.Object, current *store.Object) (runtime.Object, error)
	// validateCreate and validateUpdate may be nil.
	validateCreate upstream.ValidateObjectFunc
	validateUpdate upstream.ValidateObjectUpdateFunc
}

// replace carries out a change. It starts again from the newer state if another write came first.
func (h *Handler) replace(ctx context.Context, c *change) (*written, error) {
	return retried(ctx, h, c.key, func(current *store.Object) (*written, error) {
		if current == nil {
			return h.replaceMissing(ctx, c)
		}
		return h.replaceCurrent(ctx, c, current)
	})
}

// replaceMissing carries out one attempt for an object that does not exist.
func (h *Handler) replaceMissing(ctx context.Context, c *change) (*written, error) {
	if !c.createMissing && !c.strategy.AllowCreateOnUpdate(ctx) {
		return nil, apierrors.NewNotFound(c.res.GroupResource(), c.key.Name)
	}
	old := c.res.Codec.New()
	if err := c.precondition(old); err != nil {
		return nil, err
	}
	hub, err := c.next(ctx, old, nil)
	if err != nil {
		return nil, err
	}
	if err := permit(ctx, c.res, hub, nil); err != nil {
		return nil, err
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	upstream.WipeObjectMetaSystemFields(object)
	object.SetResourceVersion("")
	setIdentity(c.res, object)
	w := h.begin(ctx, c.res, c.key, hub, nil, nil, c.dryRun)
	w.applied = c.applied
	defer w.rollback()
	if err := w.allocateEarly(ctx); err != nil {
		return nil, err
	}
	if err := prepareCreate(w.admitted, c.res, hub, c.validateCreate); err != nil {
		return nil, err
	}
	return w.commit(ctx)
}

// replaceCurrent carries out one attempt for an object that exists.
func (h *Handler) replaceCurrent(ctx context.Context, c *change, current *store.Object) (*written, error) {
	old, err := c.res.Codec.Load(current.Data)
	if err != nil {
		return nil, undecodable(current, err)
	}
	if err := c.precondition(old); err != nil {
		return nil, err
	}
	hub, err := c.next(ctx, old, current)
	if err != nil {
		return nil, err
	}
	if err := permit(ctx, c.res, hub, old); err != nil {
		return nil, err
	}
	if err := c.checkRevision(ctx, hub, current); err != nil {
		return nil, err
	}
	w := h.begin(ctx, c.res, c.key, hub, old, current, c.dryRun)
	w.applied = c.applied
	defer w.rollback()
	if err := w.allocateEarly(ctx); err != nil {
		return nil, err
	}
	if err := beforeUpdate(ctx, c.strategy, hub, old); err != nil {
		return nil, err
	}
	// A write that would only update the timestamps of managedFields changes nothing.
	if h.noFastPaths || !trees.Differ(hub, old) {
		if w.hub, err = fieldmanager.IgnoreManagedFieldsTimestampsTransformer(ctx, hub, old); err != nil {
			return nil, err
		}
	}
	if c.validateUpdate != nil {
		if err := c.validateUpdate(w.admitted, forValidation(w.hub), forValidation(old)); err != nil {
			return nil, err
		}
	}
	if released(c.res, w.hub, current) {
		return w.finalize(ctx)
	}
	return w.commit(ctx)
}

// finalize removes an object that is being deleted and whose last finalizer the update removes. The
// client gets the state that it wrote; watches get the stored one.
func (w *write) finalize(ctx context.Context) (*written, error) {
	obj, err := w.preview()
	if err == nil && !w.dryRun {
		_, err = w.remove(ctx)
	}
	return &written{obj: obj, hub: w.hub, deleted: true}, err
}

// released reports whether an object is being deleted and nothing holds it any longer.
func released(res *resource.Resource, hub runtime.Object, current *store.Object) bool {
	if current.Head.DeletionTimestamp.IsZero() || holds(res, hub) {
		return false
	}
	object, err := meta.Accessor(hub)
	return err == nil && resource.Unheld(object) // updates cannot change the grace period
}

func holds(res *resource.Resource, hub runtime.Object) bool {
	return res.Hooks != nil && res.Hooks.HoldsDelete != nil && res.Hooks.HoldsDelete(hub)
}

// precondition checks the uid in the body.
func (c *change) precondition(old runtime.Object) error {
	if c.uid == "" {
		return nil
	}
	return interpretUpdate((&storage.Preconditions{UID: &c.uid}).Check(storagePath(c.res, c.key), old), c.key, c.res)
}

// checkRevision applies the rules for the resourceVersion in an update.
func (c *change) checkRevision(ctx context.Context, hub runtime.Object, current *store.Object) error {
	versioner := storage.APIObjectVersioner{}
	revision, err := versioner.ObjectResourceVersion(hub)
	switch {
	case err != nil:
		return err
	case revision == current.Revision:
		return nil
	case revision != 0:
		return apierrors.NewConflict(c.res.GroupResource(), c.key.Name, errors.New(lockError))
	case c.strategy.AllowUnconditionalUpdate(ctx):
		return versioner.UpdateObject(hub, current.Revision)
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: c.res.Group, Kind: c.res.Plural}, c.key.Name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "resourceVersion"), revision, "must be specified for an update"),
	})
}

// interpretUpdate converts a failed precondition to kube-apiserver's error.
func interpretUpdate(err error, key store.Key, res *resource.Resource) error {
	if err == nil {
		return nil
	}
	return storeerr.InterpretUpdateError(err, res.GroupResource(), key.Name)
}

// storagePath returns kube-apiserver's key of the object in etcd, which some of its errors contain.
func storagePath(res *resource.Resource, key store.Key) string {
	path := "/registry/" + cmp.Or(res.StoragePath, res.Plural)
	if key.Namespace != "" {
		path += "/" + key.Namespace
	}
	return path + "/" + key.Name
}
