package rest

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// generateAttempts is how many generated names are tried. With eight, a prefix with a million names still finds a free one in
// 99.9% of all cases.
const generateAttempts = 8

// create serves POST of an object.
func (s *scope) create() error {
	f, err := wire.Negotiate(s.req, s.allow())
	if err != nil {
		return err
	}
	opts, err := s.createOptions()
	if err != nil {
		return err
	}
	body, media, err := s.newBody()
	if err != nil {
		return err
	}
	var done *written
	if weight(body, media) < largeWork {
		done, err = s.createFrom(body, media, opts)
	} else {
		done, err = detached(s, func() (*written, error) { return s.createFrom(body, media, opts) })
	}
	if err != nil {
		return err
	}
	return s.answerWritten(f, done)
}

// createFrom creates an object from a body.
func (s *scope) createFrom(body []byte, media string, opts *metav1.CreateOptions) (*written, error) {
	hub, err := s.decodeNew(body, media, opts)
	if err != nil {
		return nil, err
	}
	dryRun := len(opts.DryRun) > 0
	admit := s.admit(dryRun, func(admission.Operation) runtime.Object { return opts })
	if hub, err = s.created(hub, admit, opts.FieldManager); err != nil {
		return nil, err
	}
	if err := permit(s.ctx, s.res, hub, nil); err != nil {
		return nil, err
	}
	return s.insert(s.ctx, s.res, hub, admit.validateCreate(), dryRun)
}

// created sets the owner of all fields of a new object and runs the mutating plugins.
func (s *scope) created(hub runtime.Object, admit *admit, owner string) (runtime.Object, error) {
	if err := s.checkManagers(hub); err != nil {
		return nil, err
	}
	dedupOwners(s.ctx, hub, false)
	manager, err := s.res.Codec.FieldManager(s.version, "")
	if err != nil {
		return nil, err
	}
	empty, err := s.empty()
	if err != nil {
		return nil, err
	}
	hub = manager.UpdateNoErrors(empty, hub, managerName(owner, s.req.UserAgent()))
	if err := admit.mutate(s.ctx, hub, nil); err != nil {
		return nil, err
	}
	dedupOwners(s.ctx, hub, true)
	return hub, nil
}

// empty returns an object of the request's version without any field, with which a field manager compares a new object. An
// empty hub would not do, because a hub may have zeros where a version has no field.
func (s *scope) empty() (runtime.Object, error) {
	kind := s.res.GVK(s.version)
	obj, err := s.res.Codec.Interfaces().Creater.New(kind)
	if err != nil {
		return nil, fmt.Errorf("make an empty %s: %w", kind.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return obj, nil
}

func (s *scope) createOptions() (*metav1.CreateOptions, error) {
	opts := &metav1.CreateOptions{}
	if err := s.query(opts); err != nil {
		return nil, err
	}
	if errs := validation.ValidateCreateOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "CreateOptions"}, "", errs)
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return opts, nil
}

// newBody reads the body of a POST.
func (s *scope) newBody() (body []byte, media string, err error) {
	if media, err = wire.BodyMedia(s.req, s.allow()); err != nil {
		return nil, "", err
	}
	body, err = s.body()
	return body, media, err
}

// decodeNew decodes the object to create and sets the name in the scope.
func (s *scope) decodeNew(body []byte, media string, opts *metav1.CreateOptions) (runtime.Object, error) {
	hub, strict, err := s.decode(body, media)
	if err := s.strictBody(opts.FieldValidation, strict); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, badBody(err)
	}
	if err := s.recordHub(hub); err != nil {
		return nil, err
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	s.name = object.GetName()
	if s.res.Behavior.IsNamespace {
		s.ctx = request.WithNamespace(s.ctx, s.name) // admission sees a namespace as an object in itself
	}
	upstream.WipeObjectMetaSystemFields(object)
	return hub, upstream.EnsureObjectNamespaceMatchesRequestNamespace(s.namespace, object)
}

// written is the result of a write.
type written struct {
	obj     *store.Object
	hub     runtime.Object
	created bool
	stored  bool // obj was just encoded from hub
	deleted bool // the update removed the last finalizer of an object that was being deleted
}

// insert stores a new object. It generates the name if the object has a generateName and no name.
func (h *Handler) insert(ctx context.Context, res *resource.Resource, hub runtime.Object, validate upstream.ValidateObjectFunc, dryRun bool) (*written, error) {
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	if object.GetName() != "" || object.GetGenerateName() == "" {
		return h.insertNamed(ctx, res, hub, validate, dryRun)
	}
	var done *written
	for range generateAttempts {
		done, err = h.insertNamed(ctx, res, hub.DeepCopyObject(), validate, dryRun)
		if err == nil || !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return done, err
}

func (h *Handler) insertNamed(ctx context.Context, res *resource.Resource, hub runtime.Object, validate upstream.ValidateObjectFunc, dryRun bool) (*written, error) {
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	name(res, object)
	admitted, unit := resource.WithUnit(ctx)
	given, err := begin(ctx, res, hub, dryRun)
	if err != nil {
		return nil, err
	}
	if err := prepareCreate(admitted, res, hub, validate); err != nil {
		given.undo()
		return nil, err
	}
	// A dry run ends before the storage layer, whose errors it does not report, as in kube-apiserver.
	if rv := object.GetResourceVersion(); !dryRun && rv != "" && rv != "0" {
		given.undo()
		return nil, storage.ErrResourceVersionSetOnCreate
	}
	key := res.Key(object.GetNamespace(), object.GetName())
	exists := func(current *store.Object) error {
		err := apierrors.NewAlreadyExists(res.GroupResource(), key.Name)
		if object.GetGenerateName() != "" {
			group := schema.GroupResource{Group: res.Group, Resource: res.Plural}
			if res.StoredAs != "" { // the error names the kind of the hub
				group = schema.ParseGroupResource(res.StoredAs)
			}
			err = apierrors.NewGenerateNameConflict(group, key.Name, 1)
		}
		if current != nil && !current.Head.DeletionTimestamp.IsZero() {
			err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
		}
		return err
	}
	for {
		sn, err := h.fresh(ctx)
		if err != nil {
			given.undo()
			return nil, err
		}
		if current := sn.Get(key); current != nil {
			given.undo()
			return nil, exists(current)
		}
		done, err := h.add(ctx, res, key, hub, unit, given, dryRun)
		var conflict *store.ConflictError
		switch {
		case !errors.As(err, &conflict) || ctx.Err() != nil:
			return done, err
		case conflict.Key == key:
			return nil, exists(conflict.Current)
		}
		if given, err = begin(ctx, res, hub, dryRun); err != nil {
			return nil, err
		}
		// An operation of a hook or of admission conflicted: compute it again.
	}
}

// hooked holds the results of a write's hooks: the operations to commit with it, and undo.
type hooked struct {
	ops  []store.Op
	undo func()
}

// begin runs OnCreate if it is early.
func begin(ctx context.Context, res *resource.Resource, hub runtime.Object, dryRun bool) (hooked, error) {
	if res.Hooks == nil || !res.Hooks.Early {
		return hooked{undo: func() {}}, nil
	}
	ops, undo, err := res.Hooks.OnCreate(ctx, hub, dryRun)
	return hooked{ops, orNothing(undo)}, err
}

// add stores a prepared hub as a new object, with the operations in given. Hooks run once per call.
func (h *Handler) add(ctx context.Context, res *resource.Resource, key store.Key, hub runtime.Object, unit *resource.Unit, given hooked, dryRun bool) (*written, error) {
	extra, undo := given.ops, given.undo
	if !dryRun {
		ops, done, err := unit.Ops(ctx)
		defer done()
		if err != nil {
			undo()
			return nil, err
		}
		extra = append(extra, ops...)
	}
	if res.Hooks != nil && res.Hooks.OnCreate != nil && !res.Hooks.Early {
		ops, back, err := res.Hooks.OnCreate(ctx, hub, dryRun)
		if err != nil {
			return nil, err
		}
		extra, undo = append(extra, ops...), orNothing(back)
	}
	if dryRun {
		undo()
		obj, err := pretend(res, key, hub, nil)
		return &written{obj: obj, hub: hub, created: true}, err
	}
	obj, err := h.commit(ctx, res, store.Op{Key: key}, hub, extra)
	if err != nil {
		undo()
		return nil, err
	}
	after(ctx, res, hub, nil, obj.Revision)
	return &written{obj: obj, hub: hub, created: true, stored: true}, nil
}

// permit runs the kind's Permit hook.
func permit(ctx context.Context, res *resource.Resource, hub, old runtime.Object) error {
	if res.Hooks == nil || res.Hooks.Permit == nil {
		return nil
	}
	return res.Hooks.Permit(ctx, hub, old)
}

// prepareCreate prepares and validates a new hub.
func prepareCreate(ctx context.Context, res *resource.Resource, hub runtime.Object, validate upstream.ValidateObjectFunc) error {
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	name(res, object)
	if err := beforeCreate(ctx, res, hub); err != nil {
		return err
	}
	if validate != nil {
		return validate(ctx, forValidation(hub))
	}
	return nil
}

func beforeCreate(ctx context.Context, res *resource.Resource, hub runtime.Object) error {
	if shortcut, ok := res.Strategy.(resource.Shortcut); ok {
		if errs, done := shortcut.BeforeCreate(ctx, hub); done {
			return invalid(hub, errs)
		}
	}
	return upstream.BeforeCreate(creating{res.Strategy}, ctx, hub)
}

func beforeUpdate(ctx context.Context, strategy upstream.RESTUpdateStrategy, hub, old runtime.Object) error {
	if shortcut, ok := strategy.(resource.Shortcut); ok {
		if errs, done := shortcut.BeforeUpdate(ctx, hub, old); done {
			return invalid(hub, errs)
		}
	}
	return upstream.BeforeUpdate(updating{strategy}, ctx, hub, old)
}

func invalid(hub runtime.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	return apierrors.NewInvalid(hub.GetObjectKind().GroupVersionKind().GroupKind(), object.GetName(), few(errs))
}

// forValidation returns the hub for validating plugins. Plugins only read unstructured objects; other hubs are copied, as in
// kube-apiserver.
func forValidation(hub runtime.Object) runtime.Object {
	if _, ok := hub.(*unstructured.Unstructured); ok {
		return hub
	}
	return hub.DeepCopyObject()
}

// name sets the uid, the creation time and the generated name of a new object.
func name(res *resource.Resource, object metav1.Object) {
	if object.GetUID() == "" {
		upstream.FillObjectMetaSystemFields(object)
	}
	if object.GetGenerateName() != "" && object.GetName() == "" {
		object.SetName(res.Strategy.GenerateName(object.GetGenerateName()))
	}
}

func orNothing(undo func()) func() {
	if undo == nil {
		return func() {}
	}
	return undo
}
