package rest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Admission gets an object of a subresource's own kind (Scale, Binding, Eviction) as a hub, like
// any other object. The handlers of subresources use the versioned object.

// viewHub converts a versioned object of the subresource's own kind to a hub. The result is a copy.
// A kind without an internal version, as in a custom API server, has the same type for both.
func (s *scope) viewHub(view runtime.Object) (runtime.Object, error) {
	hub, err := s.res.Codec.Interfaces().Convertor.ConvertToVersion(view, schema.GroupVersion{Group: s.kind.Group, Version: runtime.APIVersionInternal})
	if runtime.IsNotRegisteredError(err) {
		return view.DeepCopyObject(), nil // the versioned type is the hub
	}
	if err != nil {
		return nil, fmt.Errorf("convert %s for admission: %w", s.kind.Kind, err)
	}
	return hub, nil
}

// admitView runs the mutating plugins on a new view, then validate, and returns the resulting view.
// before is nil if the view is created; validate may be nil.
func (s *scope) admitView(admit *admit, view, before runtime.Object, validate func(hub runtime.Object) error) (runtime.Object, error) {
	op := admission.Create
	if before != nil {
		op = admission.Update
	}
	if !admit.handles(op) {
		return view, nil
	}
	hub, err := s.viewHub(view)
	if err != nil {
		return nil, err
	}
	var old runtime.Object
	if before != nil {
		if old, err = s.viewHub(before); err != nil {
			return nil, err
		}
	}
	if err := admit.admitAs(s.ctx, hub, old, op); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(hub); err != nil {
			return nil, err
		}
	}
	return s.res.Codec.Interfaces().Convertor.ConvertToVersion(hub, s.kind.GroupVersion())
}
