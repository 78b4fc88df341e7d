package rest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/resource"
)

// Admission gets an object of a subresource's own kind (Scale, Binding, Eviction) as a hub, like
// any other object. The handlers of subresources use the versioned object.

// viewHub converts a versioned object of the subresource's own kind to a hub. The result is a copy.
// A kind without an internal version, as in a custom API server, has the same type for both.
func (t *target) viewHub(view runtime.Object) (runtime.Object, error) {
	hub, err := t.res.Codec.Interfaces().Convertor.ConvertToVersion(view,
		schema.GroupVersion{Group: t.kind.Group, Version: runtime.APIVersionInternal})
	if runtime.IsNotRegisteredError(err) {
		return view.DeepCopyObject(), nil // the versioned type is the hub
	}
	if err != nil {
		return nil, fmt.Errorf("convert %s for admission: %w", t.kind.Kind, err)
	}
	return hub, nil
}

// admitView runs the mutating plugins on a view that is about to be updated, and returns the
// resulting view.
func (s *scope) admitView(admit *admit, view, before runtime.Object) (runtime.Object, error) {
	if !admit.handles(admission.Update) {
		return view, nil
	}
	hub, err := s.on.viewHub(view)
	if err != nil {
		return nil, err
	}
	old, err := s.on.viewHub(before)
	if err != nil {
		return nil, err
	}
	if err := admit.admitAs(s.in.ctx, hub, old, admission.Update); err != nil {
		return nil, err
	}
	return s.on.viewOf(hub)
}

// admitNewView sets the owner of all fields of a view that a POST creates, runs all plugins on it,
// and returns the resulting view. The validating plugins see what the subresource's Prepare added.
func (s *scope) admitNewView(admit *admit, view runtime.Object, req *resource.Request,
	owner string) (runtime.Object, error) {
	if s.on.sub.Owners == nil && s.on.sub.Prepare == nil && !admit.handles(admission.Create) {
		return view, nil
	}
	hub, err := s.on.viewHub(view)
	if err != nil {
		return nil, err
	}
	if hub, err = s.ownView(hub, owner); err != nil {
		return nil, err
	}
	if err := admit.admitAs(s.in.ctx, hub, nil, admission.Create); err != nil {
		return nil, err
	}
	if s.on.sub.Prepare != nil {
		if err := s.on.sub.Prepare(s.in.ctx, req, hub); err != nil {
			return nil, err
		}
	}
	if validate := admit.validateCreate(); validate != nil {
		if err := validate(s.in.ctx, hub); err != nil {
			return nil, err
		}
	}
	return s.on.viewOf(hub)
}

// ownView sets the managedFields of the hub of a new view.
func (s *scope) ownView(hub runtime.Object, owner string) (runtime.Object, error) {
	if s.on.sub.Owners == nil {
		return hub, nil
	}
	if err := s.on.checkManagers(hub); err != nil {
		return nil, err
	}
	owners, err := s.on.sub.Owners()
	if err != nil {
		return nil, err
	}
	empty, err := s.on.res.Codec.Interfaces().Creater.New(s.on.kind)
	if err != nil {
		return nil, err
	}
	empty.GetObjectKind().SetGroupVersionKind(s.on.kind)
	return owners.UpdateNoErrors(empty, hub, managerName(owner, s.in.req.UserAgent())), nil
}

// viewOf converts a hub of the subresource's own kind to the version of the request.
func (t *target) viewOf(hub runtime.Object) (runtime.Object, error) {
	return t.res.Codec.Interfaces().Convertor.ConvertToVersion(hub, t.kind.GroupVersion())
}
