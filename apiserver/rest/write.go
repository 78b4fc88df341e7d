package rest

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// unwritten is the placeholder for the resourceVersion in the bytes of a new object. The store
// replaces it in place, so that resourceVersion is where the encoder puts it and encodings can be
// compared.
const unwritten = "1"

// write is one transaction of a verb: the change of one object, the allocations of the kind's hooks
// for it, and the operations that hooks and admission plugins commit with it. All of it takes
// effect, or none of it.
//
//	w := h.begin(ctx, res, key, hub, old, current, dryRun)
//	defer w.rollback()            // nothing after a commit
//	err := w.allocateEarly(ctx)   // before the strategy
//	… strategy and admission, with w.admitted as the context …
//	done, err := w.commit(ctx)
//
// retried repeats attempts that conflict. An update computes its new state again and begins another
// write; a create calls commit again, which repeats what the rollback has undone.
type write struct {
	h       *Handler
	res     *resource.Resource
	key     store.Key
	hub     runtime.Object // the new state
	old     runtime.Object // the state before; nil: the object is created
	current *store.Object  // old as it is stored
	dryRun  bool
	applied bool // the object must keep its managedFields

	// admitted is the context of validating admission, whose plugins may join unit.
	admitted  context.Context
	unit      *resource.Unit
	release   func() // releases the resources of unit; nil if there are none
	allocated bool   // the hook has run since the last rollback
	extra     []store.Op
	undo      func() // undoes the hook; may be nil
}

// written is the result of a write.
type written struct {
	obj     *store.Object
	hub     runtime.Object
	created bool
	stored  bool // obj was just encoded from hub
	deleted bool // the update removed the last finalizer of an object that was being deleted
}

// retried calls attempt with the newest state of an object, or nil if it does not exist, until it
// does not conflict with another write. Kubernetes calls this GuaranteedUpdate.
func retried[T any](ctx context.Context, h *Handler, key store.Key,
	attempt func(current *store.Object) (T, error)) (T, error) {
	var none T
	sn, err := h.fresh(ctx)
	if err != nil {
		return none, err
	}
	for current := sn.Get(key); ; {
		done, err := attempt(current)
		var conflict *store.ConflictError
		switch {
		case !errors.As(err, &conflict) || ctx.Err() != nil:
			return done, err
		case conflict.Key == key:
			current = conflict.Current
		default: // an operation of a hook or of admission conflicted
			if sn, err = h.fresh(ctx); err != nil {
				return none, err
			}
			current = sn.Get(key)
		}
	}
}

// begin returns a write of a new state. old and current are nil for an object that does not exist.
func (h *Handler) begin(ctx context.Context, res *resource.Resource, key store.Key, hub, old runtime.Object,
	current *store.Object, dryRun bool) write {
	w := write{h: h, res: res, key: key, hub: hub, old: old, current: current, dryRun: dryRun}
	w.admitted, w.unit = resource.WithUnit(ctx)
	return w
}

// allocateEarly runs the kind's hook if it must run before the strategy.
func (w *write) allocateEarly(ctx context.Context) error {
	if w.res.Hooks == nil || !w.res.Hooks.Early {
		return nil
	}
	return w.allocate(ctx)
}

// allocate runs the kind's hook, unless it has run.
func (w *write) allocate(ctx context.Context) (err error) {
	hooks := w.res.Hooks
	if hooks == nil || w.allocated {
		return nil
	}
	switch {
	case w.old == nil && hooks.OnCreate != nil:
		w.extra, w.undo, err = hooks.OnCreate(ctx, w.hub, w.dryRun)
	case w.old != nil && hooks.OnUpdate != nil:
		w.extra, w.undo, err = hooks.OnUpdate(ctx, w.hub, w.old, w.dryRun)
	}
	w.allocated = true
	return err
}

// rollback undoes the allocations of the hook and releases the resources of unit. It does nothing
// after a commit, or if there is nothing to undo.
func (w *write) rollback() {
	undo := w.undo
	w.end()
	if undo != nil {
		undo()
	}
}

// end releases the resources of unit and discards the hook's undo function.
func (w *write) end() {
	release := w.release
	w.release, w.undo, w.extra, w.allocated = nil, nil, nil, false
	if release != nil {
		release()
	}
}

// commit stores the new state with the operations of hooks and plugins. A state that changes
// nothing is not stored. A dry run stores nothing.
func (w *write) commit(ctx context.Context) (*written, error) {
	defer w.rollback()
	if err := w.allocateEarly(ctx); err != nil {
		return nil, err
	}
	joined, err := w.join(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.allocate(ctx); err != nil {
		return nil, err
	}
	return w.put(ctx, append(w.extra, joined...))
}

// join returns the operations of admission plugins. They lock the values that they count until the
// write ends.
func (w *write) join(ctx context.Context) (ops []store.Op, err error) {
	if w.dryRun {
		return nil, nil
	}
	ops, w.release, err = w.unit.Ops(ctx)
	return ops, err
}

// put stores the new state together with other operations.
func (w *write) put(ctx context.Context, extra []store.Op) (*written, error) {
	done := &written{hub: w.hub, created: w.current == nil}
	if w.dryRun {
		var err error
		done.obj, err = w.preview()
		return done, err
	}
	op, err := w.op(w.res)
	if err != nil {
		return nil, err
	}
	if w.current != nil && !writes(extra) && sameButRevision(op.Data, w.current.Data) {
		done.obj = w.current
		return done, nil
	}
	if done.obj, err = w.guarded(ctx, op, extra); err != nil {
		return nil, err
	}
	done.stored = true
	w.committed(ctx, done.obj)
	return done, nil
}

// guarded commits op with other operations and the kind's guard. While the guard conflicts, because
// the definition of the kind has changed, the new state is encoded again under the newest
// definition. The response has the form of the request's own definition.
func (w *write) guarded(ctx context.Context, op store.Op, extra []store.Op) (*store.Object, error) {
	for res := w.res; ; {
		ops := append([]store.Op{op}, extra...)
		if res.Guard != nil {
			ops = append(ops, res.Guard.Check)
		}
		objs, err := w.h.write(ctx, ops...)
		if err == nil && res == w.res {
			return objs[0], nil
		}
		if err == nil {
			return w.shown(objs[0])
		}
		var conflict *store.ConflictError
		if res.Guard == nil || ctx.Err() != nil || !errors.As(err, &conflict) || conflict.Key != res.Guard.Check.Key {
			return nil, err
		}
		if res, err = res.Guard.Renew(conflict.Current); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if res == nil {
			return nil, apierrors.NewNotFound(w.res.GroupResource(), w.key.Name)
		}
		if op, err = w.op(res); err != nil {
			return nil, err
		}
	}
}

// writes reports whether one of the operations changes an object.
func writes(ops []store.Op) bool {
	return slices.ContainsFunc(ops, func(op store.Op) bool { return !op.Check })
}

// op returns the operation that replaces the current state by the new one, encoded by res.
func (w *write) op(res *resource.Resource) (op store.Op, err error) {
	op.Key = w.key
	revision := unwritten
	if w.current != nil {
		op.Expect, revision = w.current.Revision, revisionString(w.current.Revision)
	}
	if op.Data, err = encode(res, w.hub, revision); err != nil || w.applied || store.CheckSize(op.Key, op.Data) == nil {
		return op, err
	}
	return op, w.withoutOwners(res, revision, &op)
}

// withoutOwners encodes a new state that is too large again, without managedFields, as
// kube-apiserver does. They can be much of an object.
func (w *write) withoutOwners(res *resource.Resource, revision string, op *store.Op) error {
	object, err := meta.Accessor(w.hub)
	if err != nil || len(object.GetManagedFields()) == 0 {
		return err
	}
	object.SetManagedFields(nil)
	op.Data, err = encode(res, w.hub, revision)
	return err
}

// shown returns a committed object with the bytes that the write's own Resource encodes.
func (w *write) shown(committed *store.Object) (*store.Object, error) {
	obj := &store.Object{Key: committed.Key, Revision: committed.Revision, Created: committed.Created,
		Head: committed.Head}
	var err error
	obj.Data, err = encode(w.res, w.hub, revisionString(obj.Revision))
	return obj, err
}

// committed ends the write of a new state that was committed as obj.
func (w *write) committed(ctx context.Context, obj *store.Object) {
	w.undo = nil
	if object, err := meta.Accessor(w.hub); err == nil {
		object.SetResourceVersion(revisionString(obj.Revision))
	}
	w.after(ctx, w.hub, obj)
}

// remove deletes the object, together with other operations, instead of storing a new state. It
// must not be called for a dry run.
func (w *write) remove(ctx context.Context, extra ...store.Op) (*store.Object, error) {
	if hooks := w.res.Hooks; hooks != nil && hooks.OnRemove != nil {
		more, err := hooks.OnRemove(ctx, w.old)
		if err != nil {
			return nil, err
		}
		extra = append(extra, more...)
	}
	objs, err := w.h.write(ctx, append([]store.Op{{Key: w.key, Expect: w.current.Revision}}, extra...)...)
	if err != nil {
		return nil, err
	}
	w.after(ctx, nil, objs[0])
	return objs[0], nil
}

// after runs AfterCommit for a visible write.
func (w *write) after(ctx context.Context, hub runtime.Object, stored *store.Object) {
	if w.res.Hooks != nil && w.res.Hooks.AfterCommit != nil {
		w.res.Hooks.AfterCommit(ctx, hub, w.old, stored)
	}
}

// preview returns the object for the response of a dry run: as it would be stored, with the
// revision at which it was read.
func (w *write) preview() (*store.Object, error) {
	obj := &store.Object{Key: w.key}
	revision := ""
	if w.current != nil {
		obj.Revision, obj.Created, obj.Head = w.current.Revision, w.current.Created, w.current.Head
		revision = revisionString(w.current.Revision)
	}
	var err error
	obj.Data, err = encode(w.res, w.hub, revision)
	return obj, err
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
