package rest

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/warning"
)

// managedFieldsAdmission validates managedFields after the mutating plugins and restores them if a
// plugin made them invalid. It skips managedFields that no plugin replaced, because decoding them
// costs more than most plugins.
type managedFieldsAdmission struct{ admission.Interface }

// Admit implements [admission.MutationInterface].
func (o managedFieldsAdmission) Admit(ctx context.Context, a admission.Attributes,
	with admission.ObjectInterfaces) error {
	plugins, ok := o.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	before := heldBy(a.GetObject())
	if err := plugins.Admit(ctx, a, with); err != nil {
		return err
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil || heldBy(a.GetObject()).same(before) {
		return nil
	}
	if err := managedfields.ValidateManagedFields(object.GetManagedFields()); err != nil {
		before.putBack(object)
		warning.AddWarning(ctx, "", fmt.Sprintf(fieldmanager.InvalidManagedFieldsAfterMutatingAdmissionWarningFormat,
			err.Error()))
	}
	return nil
}

// Validate implements [admission.ValidationInterface].
func (o managedFieldsAdmission) Validate(ctx context.Context, a admission.Attributes,
	with admission.ObjectInterfaces) error {
	if plugins, ok := o.Interface.(admission.ValidationInterface); ok {
		return plugins.Validate(ctx, a, with)
	}
	return nil
}

// heldFields holds an object's managedFields: typed or, for custom objects, untyped.
type heldFields struct {
	typed   []metav1.ManagedFieldsEntry
	untyped []any // managedFields of custom objects
}

func heldBy(obj runtime.Object) heldFields {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		metadata, _ := u.Object["metadata"].(map[string]any)
		list, _ := metadata["managedFields"].([]any)
		return heldFields{untyped: list}
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return heldFields{}
	}
	return heldFields{typed: object.GetManagedFields()}
}

// same reports whether both are the same slice. Plugins that change managedFields assign new ones.
func (h heldFields) same(other heldFields) bool {
	return sameSlice(h.typed, other.typed) && sameSlice(h.untyped, other.untyped)
}

func sameSlice[E any](a, b []E) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (h heldFields) putBack(object metav1.Object) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		object.SetManagedFields(h.typed)
		return
	}
	if h.untyped == nil {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		return
	}
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		metadata["managedFields"] = h.untyped
	}
}

// maxManagers bounds the managers in an object from a client, because Kubernetes' library compares
// each one with all others.
const maxManagers = 1000

// checkManagers rejects an object with more than maxManagers managers.
func (t *target) checkManagers(hub runtime.Object) error {
	held := heldBy(hub)
	n := len(held.typed) + len(held.untyped)
	if n <= maxManagers {
		return nil
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: t.res.Group, Kind: t.res.Kind}, object.GetName(),
		field.ErrorList{
			field.TooMany(field.NewPath("metadata", "managedFields"), n, maxManagers),
		})
}
