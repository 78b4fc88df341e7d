package demo

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator"
	"kelson.dev/operator/webhook"
)

// Group and kind of Demos.
const (
	Group = "example.com"
	Kind  = "Demo"
)

// V1 is a Demo whose size is a string, such as 3x4. It is the storage version and the hub of
// conversion. Its fields have no Go types.
type V1 struct{ unstructured.Unstructured }

// V2 is a Demo whose size has a width and a height.
type V2 struct{ unstructured.Unstructured }

var (
	_ webhook.Hub         = (*V1)(nil)
	_ webhook.Convertible = (*V2)(nil)
)

// Hub marks V1 as the hub of conversions.
func (*V1) Hub() {}

// DeepCopyObject returns a copy of the same Go type.
func (d *V1) DeepCopyObject() runtime.Object { return &V1{*d.DeepCopy()} }

// DeepCopyObject returns a copy of the same Go type.
func (d *V2) DeepCopyObject() runtime.Object { return &V2{*d.DeepCopy()} }

// ConvertTo converts the size to a string.
func (d *V2) ConvertTo(hub webhook.Hub) error {
	to, ok := hub.(*V1)
	if !ok {
		return fmt.Errorf("%T is not the hub of Demo", hub)
	}
	size, _, err := unstructured.NestedMap(d.Object, "spec", "size")
	if err != nil {
		return err
	}
	to.Object = d.DeepCopy().Object
	to.SetGroupVersionKind(schema.GroupVersionKind{Group: Group, Version: "v1", Kind: Kind})
	return unstructured.SetNestedField(to.Object, fmt.Sprintf("%vx%v", size["width"], size["height"]), "spec", "size")
}

// ConvertFrom splits the size.
func (d *V2) ConvertFrom(hub webhook.Hub) error {
	from, ok := hub.(*V1)
	if !ok {
		return fmt.Errorf("%T is not the hub of Demo", hub)
	}
	text, _, err := unstructured.NestedString(from.Object, "spec", "size")
	if err != nil {
		return err
	}
	var width, height int64
	if _, err := fmt.Sscanf(text, "%dx%d", &width, &height); err != nil {
		return fmt.Errorf("spec.size: %q is not a size: %w", text, err)
	}
	d.Object = from.DeepCopy().Object
	d.SetGroupVersionKind(schema.GroupVersionKind{Group: Group, Version: "v2", Kind: Kind})
	return unstructured.SetNestedMap(d.Object, map[string]any{"width": width, "height": height}, "spec", "size")
}

// AddToScheme adds the versions to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	v1, v2 := schema.GroupVersion{Group: Group, Version: "v1"}, schema.GroupVersion{Group: Group, Version: "v2"}
	s.AddKnownTypeWithName(v1.WithKind(Kind), &V1{})
	s.AddKnownTypeWithName(v2.WithKind(Kind), &V2{})
	metav1.AddToGroupVersion(s, v1)
	metav1.AddToGroupVersion(s, v2)
	return nil
}

// Conversion returns the part of the operator that converts Demos. It names the kind by group and
// kind, because its versions do not share a Go type.
func Conversion() operator.Part {
	return operator.Setup(func(deps operator.Deps) error {
		return deps.Manager.AddConversion(schema.GroupKind{Group: Group, Kind: Kind})
	})
}
