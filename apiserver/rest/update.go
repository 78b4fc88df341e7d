package rest

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/fastpath/trees"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// update serves PUT of an object, or of a view with the object's own shape (status).
func (s *scope) update() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	body, media, opts, err := s.in.updateBody()
	if err != nil {
		return err
	}
	done, err := bounded(s, s.size(body, media), (*scope).updateFrom, body, media, opts)
	if err != nil {
		return err
	}
	return s.out.respondWritten(f, done)
}

// size returns how many bytes a change works on: the body and the stored object.
func (s *scope) size(body []byte, media string) int {
	n := weight(body, media)
	if current := s.h.store.Snapshot().Get(s.on.res.Key(s.on.namespace, s.on.name)); current != nil {
		n += len(current.Data)
	}
	return n
}

// updateFrom updates an object from a body.
func (s *scope) updateFrom(body []byte, media string, opts *metav1.UpdateOptions) (*written, error) {
	hub, strict, err := s.in.decode(body, media)
	if err := s.in.strictBody(opts.FieldValidation, strict); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, badBody(err)
	}
	if err := s.in.recordHub(hub); err != nil {
		return nil, err
	}
	if err := s.on.checkIdentity(hub); err != nil {
		return nil, err
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	dedupOwners(s.in.ctx, hub, false)
	c := s.change(opts)
	c.uid = object.GetUID()
	first := true
	c.next = func(ctx context.Context, old runtime.Object, current *store.Object) (runtime.Object, error) {
		if !first { // the first attempt consumed the hub
			if hub, _, err = s.in.decode(body, media); err != nil {
				return nil, badBody(err)
			}
			dedupOwners(warning.WithWarningRecorder(s.in.ctx, silent{}), hub, false)
		}
		first = false
		next, err := s.managed(hub, old, current, opts.FieldManager)
		if err != nil {
			return nil, err
		}
		return next, s.mutate(ctx, opts, next, old, current)
	}
	return s.h.replace(s.in.ctx, c)
}

// silent discards warnings. Retries use it, because the first attempt already added them.
type silent struct{}

func (silent) AddWarning(string, string) {}

// managed updates the managedFields of a new state. It may change next, which is private to the
// caller.
func (s *scope) managed(next, old runtime.Object, current *store.Object, manager string) (runtime.Object, error) {
	if err := s.on.checkManagers(next); err != nil {
		return nil, err
	}
	live := old
	if current == nil {
		var err error
		if live, err = s.on.empty(); err != nil {
			return nil, err
		}
	} else if s.h.unchanged(next, old) {
		return next, nil // no manager's fields change
	}
	fields, err := s.on.res.Codec.FieldManager(s.on.version, s.on.info.Subresource)
	if err != nil {
		return nil, err
	}
	return fields.UpdateNoErrors(live, next, managerName(manager, s.in.req.UserAgent())), nil
}

// unchanged reports whether next has the content of old, and if so copies the managedFields of old
// to it. A body without managedFields keeps the present ones; a body with different ones is a
// change.
func (h *Handler) unchanged(next, old runtime.Object) bool {
	if !h.noFastPaths && trees.Differ(next, old) {
		return false
	}
	n, err := meta.Accessor(next)
	if err != nil {
		return false
	}
	o, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	fields, revision := n.GetManagedFields(), n.GetResourceVersion()
	if fields != nil && !equality.Semantic.DeepEqual(fields, o.GetManagedFields()) {
		return false
	}
	n.SetManagedFields(o.GetManagedFields())
	n.SetResourceVersion(o.GetResourceVersion())
	same := reflect.DeepEqual(next, old) // an empty list and no list differ
	n.SetResourceVersion(revision)
	if !same {
		n.SetManagedFields(fields)
	}
	return same
}

// updateBody reads the body and the options of a PUT.
func (in *input) updateBody() (body []byte, media string, opts *metav1.UpdateOptions, err error) {
	if body, err = in.body(); err != nil {
		return nil, "", nil, err
	}
	opts = &metav1.UpdateOptions{}
	if err := in.query(opts); err != nil {
		return nil, "", nil, err
	}
	if errs := validation.ValidateUpdateOptions(opts); len(errs) > 0 {
		return nil, "", nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "UpdateOptions"}, "",
			errs)
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	media, err = wire.BodyMedia(in.req, in.on.allow())
	return body, media, opts, err
}

// change returns the change for a PUT or PATCH. The caller must set next, which must call mutate.
func (s *scope) change(opts *metav1.UpdateOptions) *change {
	admit := s.updateAdmit(opts)
	c := &change{
		res:            s.on.res,
		key:            s.on.res.Key(s.on.namespace, s.on.name),
		strategy:       s.on.res.Strategy,
		dryRun:         len(opts.DryRun) > 0,
		validateCreate: admit.mayCreate(),
		validateUpdate: admit.validateUpdate(),
	}
	if s.on.sub != nil {
		c.strategy = s.on.sub.Update.Strategy
	}
	return c
}

// mutate runs the mutating plugins on the new state of a change.
func (s *scope) mutate(ctx context.Context, opts *metav1.UpdateOptions, next, old runtime.Object,
	current *store.Object) error {
	if current == nil {
		old = nil
	}
	if err := s.updateAdmit(opts).mutate(ctx, next, old); err != nil {
		return err
	}
	dedupOwners(ctx, next, true)
	return nil
}

// updateAdmit returns the admission of an update, which may create the object.
func (s *scope) updateAdmit(opts *metav1.UpdateOptions) *admit {
	return s.admit(len(opts.DryRun) > 0, func(op admission.Operation) runtime.Object {
		if op != admission.Create {
			return opts
		}
		create := &metav1.CreateOptions{DryRun: opts.DryRun, FieldManager: opts.FieldManager,
			FieldValidation: opts.FieldValidation}
		create.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
		return create
	})
}

// checkIdentity compares name and namespace of a body with those of the path.
func (t *target) checkIdentity(obj runtime.Object) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: %v",
			t.name, err))
	}
	if err := upstream.EnsureObjectNamespaceMatchesRequestNamespace(t.namespace, object); err != nil {
		return err
	}
	switch {
	case object.GetName() == "":
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s based on URL) was undeterminable: name must be provided", t.name))
	case object.GetName() != t.name:
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", object.GetName(), t.name))
	}
	return nil
}

func (out *output) respondWritten(f wire.Format, done *written) error {
	code := http.StatusOK
	if done.created {
		code = http.StatusCreated
	}
	if done.stored {
		return out.respondOf(code, f, done.obj, done.hub)
	}
	return out.respond(code, f, done.obj)
}
