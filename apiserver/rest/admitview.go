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
func (s *scope) viewHub(view runtime.Object) (runtime.Object, error) {
	hub, err := s.res.Codec.Interfaces().Convertor.ConvertToVersion(view,
		schema.GroupVersion{Group: s.kind.Group, Version: runtime.APIVersionInternal})
	if runtime.IsNotRegisteredError(err) {
		return view.DeepCopyObject(), nil // the versioned type is the hub
	}
	if err != nil {
		return nil, fmt.Errorf("convert %s for admission: %w", s.kind.Kind, err)
	}
	return hub, nil
}

// admitView runs the mutating plugins on a view that is about to be updated, and returns the
// resulting view.
func (s *scope) admitView(admit *admit, view, before runtime.Object) (runtime.Object, error) {
	if !admit.handles(admission.Update) {
		return view, nil
	}
	hub, err := s.viewHub(view)
	if err != nil {
		return nil, err
	}
	old, err := s.viewHub(before)
	if err != nil {
		return nil, err
	}
	if err := admit.admitAs(s.ctx, hub, old, admission.Update); err != nil {
		return nil, err
	}
	return s.viewOf(hub)
}

// admitNewView sets the owner of all fields of a view that a POST creates, runs all plugins on it,
// and returns the resulting view. The validating plugins see what the subresource's Prepare added.
func (s *scope) admitNewView(admit *admit, view runtime.Object, req *resource.Request,
	owner string) (runtime.Object, error) {
	if s.sub.Owners == nil && s.sub.Prepare == nil && !admit.handles(admission.Create) {
		return view, nil
	}
	hub, err := s.viewHub(view)
	if err != nil {
		return nil, err
	}
	if hub, err = s.ownView(hub, owner); err != nil {
		return nil, err
	}
	if err := admit.admitAs(s.ctx, hub, nil, admission.Create); err != nil {
		return nil, err
	}
	if s.sub.Prepare != nil {
		if err := s.sub.Prepare(s.ctx, req, hub); err != nil {
			return nil, err
		}
	}
	if validate := admit.validateCreate(); validate != nil {
		if err := validate(s.ctx, hub); err != nil {
			return nil, err
		}
	}
	return s.viewOf(hub)
}

// ownView sets the managedFields of the hub of a new view.
func (s *scope) ownView(hub runtime.Object, owner string) (runtime.Object, error) {
	if s.sub.Owners == nil {
		return hub, nil
	}
	if err := s.checkManagers(hub); err != nil {
		return nil, err
	}
	owners, err := s.sub.Owners()
	if err != nil {
		return nil, err
	}
	empty, err := s.res.Codec.Interfaces().Creater.New(s.kind)
	if err != nil {
		return nil, err
	}
	empty.GetObjectKind().SetGroupVersionKind(s.kind)
	return owners.UpdateNoErrors(empty, hub, managerName(owner, s.req.UserAgent())), nil
}

// viewOf converts a hub of the subresource's own kind to the version of the request.
func (s *scope) viewOf(hub runtime.Object) (runtime.Object, error) {
	return s.res.Codec.Interfaces().Convertor.ConvertToVersion(hub, s.kind.GroupVersion())
}
