package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// delete serves DELETE of one object.
func (s *scope) delete() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	opts, err := s.in.deleteOptions()
	if err != nil {
		return err
	}
	if unsafeDelete(opts) {
		return s.deleteUnreadable(f, opts)
	}
	if err := s.deleting(opts); err != nil {
		return err
	}
	admit := s.admit(len(opts.DryRun) > 0, func(admission.Operation) runtime.Object { return opts })
	done, err := s.h.remove(s.in.ctx, s.on.res, s.on.res.Key(s.on.namespace, s.on.name), opts, admit.validateDelete())
	if err != nil {
		return err
	}
	code := http.StatusOK
	//nolint:staticcheck // SA1019: old clients send it
	if orphan := opts.OrphanDependents; !done.gone && orphan != nil && !*orphan {
		code = http.StatusAccepted
	}
	if done.status != nil {
		bare, err := wire.Encode(f.Bare(), done.status)
		if err != nil {
			return err
		}
		s.out.send(code, f, wire.StatusKind(), bare)
		return nil
	}
	return s.out.respond(code, f, done.obj)
}

// deleting calls the kind's hook for a DELETE.
func (s *scope) deleting(opts *metav1.DeleteOptions) error {
	if hooks := s.on.res.Hooks; hooks != nil && hooks.Deleting != nil {
		return hooks.Deleting(s.in.ctx, s.on.name, opts)
	}
	return nil
}

// removed is the result of a deletion.
type removed struct {
	// obj is the last state. status, if not nil, is the response instead of it.
	obj    *store.Object
	status *metav1.Status
	gone   bool // the object was removed by this request
	// missing means that the object did not exist. The error is NotFound, and obj is nil.
	missing bool
}

// remove deletes an object, or marks it as being deleted if it has finalizers or a grace period.
// validate may be nil.
func (h *Handler) remove(ctx context.Context, res *resource.Resource, key store.Key, opts *metav1.DeleteOptions,
	validate upstream.ValidateObjectFunc) (*removed, error) {
	var marked *store.Object
	asked := opts.DeepCopy()
	return retried(ctx, h, key, func(current *store.Object) (*removed, error) {
		switch {
		case marked != nil && (current == nil || current.Head.UID != marked.Head.UID):
			// Another client, such as a node, saw the mark and deleted the object first.
			return (&deletion{res: res, key: key}).response(marked, true), nil
		case current == nil:
			return &removed{missing: true}, apierrors.NewNotFound(res.GroupResource(), key.Name)
		}
		d := &deletion{Handler: h, res: res, key: key, opts: asked.DeepCopy(), shown: opts, current: current,
			marked: marked}
		done, err := d.attempt(ctx, validate)
		marked = d.marked
		return done, err
	})
}

// deletion is one attempt to delete from one state.
type deletion struct {
	*Handler
	res     *resource.Resource
	key     store.Key
	opts    *metav1.DeleteOptions // a copy: strategies write their defaults into it
	shown   *metav1.DeleteOptions // admission sees them; they get the defaults, too
	current *store.Object
	hub     runtime.Object
	object  metav1.Object
	old     runtime.Object // the state before
	marked  *store.Object  // the stored state with a grace period of 0; nil: not stored
	unit    *resource.Unit // operations that admission commits with the deletion; may be nil
}

func (d *deletion) attempt(ctx context.Context, validate upstream.ValidateObjectFunc) (*removed, error) {
	var err error
	if d.hub, err = d.res.Codec.Load(d.current.Data); err != nil {
		return nil, corrupt(d.res, d.current, err)
	}
	if d.object, err = meta.Accessor(d.hub); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	d.old = d.hub.DeepCopyObject()
	behavior := &d.res.Behavior.Delete
	if err := d.ownPreconditions(behavior.Preconditions); err != nil {
		return nil, err
	}
	if behavior.OnceHeld && !d.current.Head.DeletionTimestamp.IsZero() && holds(d.res, d.hub) {
		return &removed{obj: d.current}, nil
	}

	// Preconditions, then the grace period: deletionTimestamp, deletionGracePeriodSeconds,
	// generation.
	graceful, pending, err := upstream.BeforeDelete(d.res.Strategy, ctx, d.hub, d.opts)
	if err != nil {
		return nil, err
	}
	if pending { // already being deleted, and the grace period does not get shorter
		return d.response(d.current, false), nil
	}
	if validate != nil {
		var admitted context.Context
		admitted, d.unit = resource.WithUnit(ctx)
		*d.shown = *d.opts
		if err := validate(admitted, d.old); err != nil {
			return nil, err
		}
	}
	if hooks := d.res.Hooks; hooks != nil && hooks.OnDelete != nil && d.current.Head.DeletionTimestamp.IsZero() {
		if err := hooks.OnDelete(ctx, d.hub, len(d.opts.DryRun) > 0); err != nil {
			return nil, err
		}
	}
	generation := d.object.GetGeneration()
	if !behavior.NoPropagation {
		d.object.SetFinalizers(d.finalizers(ctx))
	}
	held := len(d.object.GetFinalizers()) > 0 || holds(d.res, d.hub)

	switch {
	case held && !graceful:
		markDeleting(d.object, time.Now())
		if behavior.NoGracePeriod {
			d.object.SetDeletionGracePeriodSeconds(nil)
			d.object.SetGeneration(generation)
		}
		return d.mark(ctx)
	case held, graceful && *d.opts.GracePeriodSeconds > 0:
		return d.mark(ctx)
	case graceful:
		// The grace period is 0. The marked state is stored before the object is removed, so that
		// watches see it. The operations of admission are committed with the removal.
		unit := d.unit
		d.unit = nil
		marked, err := d.mark(ctx)
		d.unit = unit
		if err != nil || len(d.opts.DryRun) > 0 {
			return marked, err
		}
		d.current, d.marked = marked.obj, marked.obj
		waitCommitGap(ctx)
	}
	return d.erase(ctx)
}

// commitGap is about how long a commit of etcd takes, which on kube-apiserver separates the two
// events of an immediate deletion. Clients rely on having seen the first before the second.
const commitGap = time.Millisecond

// waitCommitGap waits for commitGap if the request came over a network. Clients in this process,
// and tests in virtual time, do not wait.
func waitCommitGap(ctx context.Context) {
	if !isExternal(ctx) {
		return
	}
	timer := time.NewTimer(commitGap)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ownPreconditions checks the preconditions for a kind that has its own error text for them. The
// text begins with begin. If begin is "", the check that all kinds share runs later. The UID
// becomes a precondition of such a kind, which admission sees.
func (d *deletion) ownPreconditions(begin string) error {
	if begin == "" {
		return nil
	}
	if d.opts.Preconditions == nil {
		d.opts.Preconditions = &metav1.Preconditions{}
	}
	want := d.opts.Preconditions
	if want.UID == nil {
		uid := d.object.GetUID()
		want.UID = &uid
	}
	var problem error
	switch {
	case want.UID != nil && *want.UID != d.object.GetUID():
		problem = fmt.Errorf("%s failed: UID in precondition: %v, UID in object meta: %v", begin, *want.UID,
			d.object.GetUID())
	case want.ResourceVersion != nil && *want.ResourceVersion != d.object.GetResourceVersion():
		problem = fmt.Errorf("%s failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
			begin, *want.ResourceVersion, d.object.GetResourceVersion())
	default:
		return nil
	}
	return apierrors.NewConflict(d.res.GroupResource(), d.key.Name, problem)
}

// asWrite returns the write that marks or removes the object. No hook allocates anything for it.
func (d *deletion) asWrite() *write {
	return &write{
		h: d.Handler, res: d.res, key: d.key, hub: d.hub, old: d.old, current: d.current,
		dryRun: len(d.opts.DryRun) > 0, unit: d.unit,
	}
}

// mark stores that the object is being deleted.
func (d *deletion) mark(ctx context.Context) (*removed, error) {
	w := d.asWrite()
	defer w.rollback()
	joined, err := w.join(ctx)
	if err != nil {
		return nil, err
	}
	done, err := w.put(ctx, joined)
	if err != nil {
		return nil, err
	}
	return &removed{obj: done.obj}, nil
}

// erase removes the object from the store.
func (d *deletion) erase(ctx context.Context) (*removed, error) {
	if len(d.opts.DryRun) > 0 {
		return d.response(d.current, true), nil
	}
	w := d.asWrite()
	defer w.rollback()
	joined, err := w.join(ctx)
	if err != nil {
		return nil, err
	}
	obj, err := w.remove(ctx, joined...)
	if err != nil {
		return nil, err
	}
	return d.response(obj, true), nil
}

// response returns the response for an object that has been deleted or will be deleted without
// another request.
func (d *deletion) response(obj *store.Object, gone bool) *removed {
	if d.res.ReturnsDeleted {
		return &removed{obj: obj, gone: gone}
	}
	return &removed{obj: obj, gone: gone, status: &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		// Clients expect the plural name of the resource as Kind.
		Details: &metav1.StatusDetails{Name: d.key.Name, Group: d.res.Group, Kind: d.res.Plural, UID: obj.Head.UID},
	}}
}

// finalizers returns the object's finalizers with those of the garbage collector that the
// propagation policy requires. The policy comes from the options, else from the present finalizers,
// else from the kind's default.
func (d *deletion) finalizers(ctx context.Context) []string {
	policy := upstream.DeleteDependents
	if gc, ok := d.res.Strategy.(upstream.GarbageCollectionDeleteStrategy); ok {
		policy = gc.DefaultGarbageCollectionPolicy(ctx)
	}
	present := d.object.GetFinalizers()
	orphan := policy == upstream.OrphanDependents
	foreground := false
	//nolint:staticcheck // SA1019: OrphanDependents is deprecated, but served
	switch requested := d.opts.PropagationPolicy; {
	case policy == upstream.Unsupported:
		orphan, foreground = false, false
	case d.opts.OrphanDependents != nil:
		orphan, foreground = *d.opts.OrphanDependents, false
	case requested != nil:
		orphan, foreground = *requested == metav1.DeletePropagationOrphan,
			*requested == metav1.DeletePropagationForeground
	default:
		for _, f := range present { // the first one decides
			if f == metav1.FinalizerOrphanDependents {
				orphan, foreground = true, false
				break
			}
			if f == metav1.FinalizerDeleteDependents {
				orphan, foreground = false, true
				break
			}
		}
	}
	if orphan == slices.Contains(present, metav1.FinalizerOrphanDependents) &&
		foreground == slices.Contains(present, metav1.FinalizerDeleteDependents) {
		return present
	}
	wanted := slices.DeleteFunc(slices.Clone(present), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		wanted = append(wanted, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		wanted = append(wanted, metav1.FinalizerDeleteDependents)
	}
	return wanted
}

// markDeleting sets the deletion metadata of kinds without a grace period, as upstream.BeforeDelete
// does for the others.
func markDeleting(object metav1.Object, now time.Time) {
	since := object.GetDeletionTimestamp()
	if since == nil && object.GetGeneration() > 0 {
		object.SetGeneration(object.GetGeneration() + 1)
	}
	if since == nil || since.After(now) {
		object.SetDeletionTimestamp(&metav1.Time{Time: now})
	}
	object.SetDeletionGracePeriodSeconds(new(int64))
}
