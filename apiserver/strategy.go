package apiserver

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/apiserver/resource"
)

// strategy runs the rules of a kind in writes of the object or, with ofStatus, of its status.
type strategy struct {
	*runtime.Scheme
	names.NameGenerator
	kind *kind
	// status is the index of the field of the hub type with the status; -1 means none. content are
	// the indexes of the fields whose changes increase the generation.
	status   int
	content  []int
	ofStatus bool
}

var (
	_ resource.Strategy                   = (*strategy)(nil)
	_ upstream.RESTGracefulDeleteStrategy = (*strategy)(nil)
	_ upstream.ResetFieldsStrategy        = (*strategy)(nil)
)

func newStrategy(k *kind, scheme *runtime.Scheme) *strategy {
	s := &strategy{Scheme: scheme, NameGenerator: names.SimpleNameGenerator, kind: k, status: -1}
	t := reflect.TypeOf(k.hub().proto).Elem()
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta](), f.Type == reflect.TypeFor[metav1.ObjectMeta](),
			!f.IsExported():
		case name == "status":
			s.status = i
		default:
			s.content = append(s.content, i)
		}
	}
	return s
}

func (s *strategy) NamespaceScoped() bool                         { return !s.kind.cluster }
func (s *strategy) AllowCreateOnUpdate(context.Context) bool      { return false }
func (s *strategy) AllowUnconditionalUpdate(context.Context) bool { return s.kind.uncond }

func (s *strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if s.status >= 0 {
		reflect.ValueOf(obj).Elem().Field(s.status).SetZero()
	}
	if object, err := meta.Accessor(obj); err == nil {
		object.SetGeneration(1)
	}
	for _, prepare := range s.kind.rules.prepareCreate {
		prepare(ctx, obj)
	}
}

func (s *strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	if s.ofStatus {
		s.prepareStatus(ctx, obj, old)
		return
	}
	next, before := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old.DeepCopyObject()).Elem()
	if s.status >= 0 {
		next.Field(s.status).Set(before.Field(s.status))
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	previous, err := meta.Accessor(old)
	if err != nil {
		return
	}
	object.SetGeneration(previous.GetGeneration())
	for _, prepare := range s.kind.rules.prepareUpdate {
		prepare(ctx, obj, old)
	}
	for _, i := range s.content {
		if !equality.Semantic.DeepEqual(next.Field(i).Interface(), before.Field(i).Interface()) {
			object.SetGeneration(previous.GetGeneration() + 1)
			return
		}
	}
}

// prepareStatus keeps only the status and the managedFields of the new object.
func (s *strategy) prepareStatus(ctx context.Context, obj, old runtime.Object) {
	next, before := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old.DeepCopyObject()).Elem()
	object, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	managed, revision := object.GetManagedFields(), object.GetResourceVersion()
	status := reflect.New(next.Field(s.status).Type()).Elem()
	status.Set(next.Field(s.status))
	next.Set(before)
	next.Field(s.status).Set(status)
	object.SetManagedFields(managed)
	object.SetResourceVersion(revision)
	for _, prepare := range s.kind.rules.prepareStatus {
		prepare(ctx, obj, old)
	}
}

func (s *strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if object, err := meta.Accessor(obj); err == nil {
		errs = validation.ValidateObjectMetaAccessor(object, s.NamespaceScoped(), validation.NameIsDNSSubdomain,
			field.NewPath("metadata"))
	}
	errs = append(errs, s.validateFinalizers(obj, nil)...)
	errs = append(errs, s.validateDeclared(ctx, obj, nil)...)
	return append(errs, s.validate(ctx, obj)...)
}

// validateFinalizers rejects finalizers that a write adds to an object of a kind with a source. old
// is nil for a create.
func (s *strategy) validateFinalizers(obj, old runtime.Object) (errs field.ErrorList) {
	if s.kind.source == nil {
		return nil
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	var present []string
	if previous, err := meta.Accessor(old); err == nil {
		present = previous.GetFinalizers()
	}
	for i, f := range object.GetFinalizers() {
		if !slices.Contains(present, f) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "finalizers").Index(i),
				"objects of this kind are in another system, whose deletions cannot be held"))
		}
	}
	return errs
}

func (s *strategy) validate(ctx context.Context, obj runtime.Object) (errs field.ErrorList) {
	for _, validate := range s.kind.rules.validate {
		errs = append(errs, validate(ctx, obj)...)
	}
	return errs
}

func (s *strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) (errs field.ErrorList) {
	changes := s.kind.rules.validateUpdate
	errs = s.validateDeclared(ctx, obj, old)
	if s.ofStatus {
		changes = s.kind.rules.validateStatus
	} else {
		errs = append(errs, s.validateFinalizers(obj, old)...)
		errs = append(errs, s.validate(ctx, obj)...)
	}
	for _, validate := range changes {
		errs = append(errs, validate(ctx, obj, old)...)
	}
	return errs
}

func (s *strategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	return s.WarningsOnUpdate(ctx, obj, nil)
}

func (s *strategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) (all []string) {
	if s.ofStatus {
		return nil
	}
	for _, warnings := range s.kind.rules.warnings {
		all = append(all, warnings(ctx, obj, old)...)
	}
	return all
}

func (s *strategy) Canonicalize(obj runtime.Object) {
	for _, canonicalize := range s.kind.rules.canonicalize {
		canonicalize(obj)
	}
}

// CheckGracefulDelete reports whether an object remains for a while after its deletion was
// requested.
func (s *strategy) CheckGracefulDelete(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	if s.kind.rules.grace == nil {
		return false
	}
	seconds := s.kind.rules.grace(ctx, obj, options.GracePeriodSeconds)
	options.GracePeriodSeconds = &seconds
	return true
}

// GetResetFields returns the fields that a write cannot own: the status in writes of the object,
// everything else in writes of the status.
func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.status < 0 {
		return nil
	}
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, v := range s.kind.versions {
		set := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
		if s.ofStatus {
			set = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"))
			for _, name := range topLevel(reflect.TypeOf(v.proto).Elem()) {
				set.Insert(fieldpath.MakePathOrDie(name))
			}
		}
		reset[fieldpath.APIVersion(s.kind.gvk(v.name).GroupVersion().String())] = set
	}
	return reset
}

// topLevel returns the JSON names of the fields of a type, except metadata and status.
func topLevel(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" && name != "metadata" && name != "status" {
			all = append(all, name)
		}
	}
	return all
}
