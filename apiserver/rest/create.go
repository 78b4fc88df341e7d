package rest

import (
	"context"
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

// generateAttempts is the maximum number of generated names that are tried, as in Kubernetes. With
// eight, the probability that any of a million creates with the same prefix fails is 0.1%.
const generateAttempts = 8

// create serves POST of an object.
func (s *scope) create() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	opts, err := s.in.createOptions()
	if err != nil {
		return err
	}
	body, media, err := s.in.newBody()
	if err != nil {
		return err
	}
	done, err := bounded(s, weight(body, media), (*scope).createFrom, body, media, opts)
	if err != nil {
		return err
	}
	return s.out.respondWritten(f, done)
}

// createFrom creates an object from a body.
func (s *scope) createFrom(body []byte, media string, opts *metav1.CreateOptions) (*written, error) {
	hub, err := s.in.decodeNew(body, media, opts)
	if err != nil {
		return nil, err
	}
	dryRun := len(opts.DryRun) > 0
	admit := s.admit(dryRun, func(admission.Operation) runtime.Object { return opts })
	if hub, err = s.created(hub, admit, opts.FieldManager); err != nil {
		return nil, err
	}
	if err := permit(s.in.ctx, s.on.res, hub, nil); err != nil {
		return nil, err
	}
	return s.h.insert(s.in.ctx, s.on.res, hub, admit.validateCreate(), dryRun)
}

// created sets the owner of all fields of a new object and runs the mutating plugins.
func (s *scope) created(hub runtime.Object, admit *admit, owner string) (runtime.Object, error) {
	if err := s.on.checkManagers(hub); err != nil {
		return nil, err
	}
	dedupOwners(s.in.ctx, hub, false)
	manager, err := s.on.res.Codec.FieldManager(s.on.version, "")
	if err != nil {
		return nil, err
	}
	empty, err := s.on.empty()
	if err != nil {
		return nil, err
	}
	hub = manager.UpdateNoErrors(empty, hub, managerName(owner, s.in.req.UserAgent()))
	if err := admit.mutate(s.in.ctx, hub, nil); err != nil {
		return nil, err
	}
	dedupOwners(s.in.ctx, hub, true)
	return hub, nil
}

// empty returns an object of the request's version without any field. A field manager compares it
// with a new object. An empty hub cannot be used instead, because a hub may have zeros where a
// version has no field.
func (t *target) empty() (runtime.Object, error) {
	kind := t.res.GVK(t.version)
	obj, err := t.res.Codec.Interfaces().Creater.New(kind)
	if err != nil {
		return nil, fmt.Errorf("make an empty %s: %w", kind.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return obj, nil
}

func (in *input) createOptions() (*metav1.CreateOptions, error) {
	opts := &metav1.CreateOptions{}
	if err := in.query(opts); err != nil {
		return nil, err
	}
	if errs := validation.ValidateCreateOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "CreateOptions"}, "", errs)
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return opts, nil
}

// newBody reads the body of a POST.
func (in *input) newBody() (body []byte, media string, err error) {
	if media, err = wire.BodyMedia(in.req, in.on.allow()); err != nil {
		return nil, "", err
	}
	body, err = in.body()
	return body, media, err
}

// decodeNew decodes the object to create and sets the name of the target.
func (in *input) decodeNew(body []byte, media string, opts *metav1.CreateOptions) (runtime.Object, error) {
	hub, strict, err := in.decode(body, media)
	if err := in.strictBody(opts.FieldValidation, strict); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, badBody(err)
	}
	if err := in.recordHub(hub); err != nil {
		return nil, err
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	in.on.name = object.GetName()
	if in.on.res.Behavior.IsNamespace {
		// for admission, a Namespace is in the namespace of its own name
		in.ctx = request.WithNamespace(in.ctx, in.on.name)
	}
	upstream.WipeObjectMetaSystemFields(object)
	return hub, upstream.EnsureObjectNamespaceMatchesRequestNamespace(in.on.namespace, object)
}

// insert stores a new object. It generates the name if the object has a generateName and no name.
func (h *Handler) insert(ctx context.Context, res *resource.Resource, hub runtime.Object,
	validate upstream.ValidateObjectFunc, dryRun bool) (*written, error) {
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

func (h *Handler) insertNamed(ctx context.Context, res *resource.Resource, hub runtime.Object,
	validate upstream.ValidateObjectFunc, dryRun bool) (*written, error) {
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	setIdentity(res, object)
	w := h.begin(ctx, res, store.Key{}, hub, nil, nil, dryRun)
	defer w.rollback()
	if err := w.allocateEarly(ctx); err != nil {
		return nil, err
	}
	if err := prepareCreate(w.admitted, res, hub, validate); err != nil {
		return nil, err
	}
	// A dry run ends before the storage layer, whose errors it does not report, as in
	// kube-apiserver.
	if rv := object.GetResourceVersion(); !dryRun && rv != "" && rv != "0" {
		return nil, storage.ErrResourceVersionSetOnCreate
	}
	w.key = res.Key(object.GetNamespace(), object.GetName()) // preparation may clear the namespace
	return retried(ctx, h, w.key, func(current *store.Object) (*written, error) {
		if current != nil {
			return nil, alreadyExists(res, object, current)
		}
		return w.commit(ctx)
	})
}

// alreadyExists returns the error for an object that cannot be created because of the current one.
func alreadyExists(res *resource.Resource, object metav1.Object, current *store.Object) error {
	err := apierrors.NewAlreadyExists(res.GroupResource(), object.GetName())
	if object.GetGenerateName() != "" {
		group := schema.GroupResource{Group: res.Group, Resource: res.Plural}
		if res.StoredAs != "" { // the error names the kind of the hub
			group = schema.ParseGroupResource(res.StoredAs)
		}
		err = apierrors.NewGenerateNameConflict(group, object.GetName(), 1)
	}
	if !current.Head.DeletionTimestamp.IsZero() {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// permit runs the kind's Permit hook.
func permit(ctx context.Context, res *resource.Resource, hub, old runtime.Object) error {
	if res.Hooks == nil || res.Hooks.Permit == nil {
		return nil
	}
	return res.Hooks.Permit(ctx, hub, old)
}

// prepareCreate prepares and validates a new hub.
func prepareCreate(ctx context.Context, res *resource.Resource, hub runtime.Object,
	validate upstream.ValidateObjectFunc) error {
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	setIdentity(res, object)
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
	return apierrors.NewInvalid(hub.GetObjectKind().GroupVersionKind().GroupKind(), object.GetName(), firstErrors(errs))
}

// forValidation returns the hub for validating plugins. Plugins only read unstructured objects;
// other hubs are copied, as in kube-apiserver.
func forValidation(hub runtime.Object) runtime.Object {
	if _, ok := hub.(*unstructured.Unstructured); ok {
		return hub
	}
	return hub.DeepCopyObject()
}

// setIdentity sets the uid, the creation time and the generated name of a new object.
func setIdentity(res *resource.Resource, object metav1.Object) {
	if object.GetUID() == "" {
		upstream.FillObjectMetaSystemFields(object)
	}
	if object.GetGenerateName() != "" && object.GetName() == "" {
		object.SetName(res.Strategy.GenerateName(object.GetGenerateName()))
	}
}
