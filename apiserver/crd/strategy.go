package crd

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/apiserver/resource"
)

// strategy runs the library's rules of one version on hubs in that version, so that errors name
// fields of the client's version.
type strategy struct {
	*compiled
	hub    string
	status bool
}

var _ resource.Strategy = (*strategy)(nil)

func (s *strategy) rules() (*rules, error) {
	v, err := s.version(s.hub)
	if err != nil {
		return nil, err
	}
	return v.rules()
}

func unusable(err error) field.ErrorList { return field.ErrorList{field.InternalError(nil, err)} }

func (s *strategy) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{obj.GetObjectKind().GroupVersionKind()}, false, nil
}
func (s *strategy) Recognizes(gvk schema.GroupVersionKind) bool {
	return gvk.Group == s.group && gvk.Kind == s.name
}
func (s *strategy) NamespaceScoped() bool { return s.namespaced }
func (s *strategy) GenerateName(base string) string {
	return names.SimpleNameGenerator.GenerateName(base)
}
func (s *strategy) Canonicalize(runtime.Object)                   {}
func (s *strategy) AllowCreateOnUpdate(context.Context) bool      { return false }
func (s *strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

func (s *strategy) PrepareForCreate(ctx context.Context, hub runtime.Object) {
	if r, err := s.rules(); err == nil {
		r.main.PrepareForCreate(ctx, hub)
	}
}

func (s *strategy) Validate(ctx context.Context, hub runtime.Object) field.ErrorList {
	r, err := s.rules()
	if err != nil {
		return unusable(err)
	}
	return r.main.Validate(ctx, hub)
}

func (s *strategy) WarningsOnCreate(ctx context.Context, hub runtime.Object) []string {
	r, err := s.rules()
	if err != nil {
		return nil
	}
	return r.main.WarningsOnCreate(ctx, hub)
}

func (s *strategy) PrepareForUpdate(ctx context.Context, hub, old runtime.Object) {
	r, err := s.rules()
	switch {
	case err != nil:
	case s.status:
		r.status.PrepareForUpdate(ctx, hub, old)
	default:
		r.main.PrepareForUpdate(ctx, hub, old)
	}
}

func (s *strategy) ValidateUpdate(ctx context.Context, hub, old runtime.Object) field.ErrorList {
	r, err := s.rules()
	if err != nil {
		return unusable(err)
	}
	if s.status {
		return r.status.ValidateUpdate(ctx, hub, old)
	}
	return r.main.ValidateUpdate(ctx, hub, old)
}

func (s *strategy) WarningsOnUpdate(ctx context.Context, hub, old runtime.Object) []string {
	r, err := s.rules()
	switch {
	case err != nil:
		return nil
	case s.status:
		return r.status.WarningsOnUpdate(ctx, hub, old)
	default:
		return r.main.WarningsOnUpdate(ctx, hub, old)
	}
}

// GetResetFields returns the fields that a write cannot own: status for the main resource,
// everything else for status.
func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for name, v := range s.versions {
		if !v.hasStatus() {
			continue
		}
		set := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
		if s.status {
			set = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
		}
		reset[fieldpath.APIVersion(s.gvk(name).GroupVersion().String())] = set
	}
	return reset
}

// hooks refuses to create objects of a kind whose definition is being deleted.
func (k *kind) hooks() *resource.Hooks {
	if k.definition.DeletionTimestamp.IsZero() {
		return nil
	}
	return &resource.Hooks{Creating: func(_ context.Context, name string) error {
		return apierrors.NewForbidden(k.resource.GroupResource(), name,
			errors.New("create not allowed while custom resource definition is terminating"))
	}}
}
