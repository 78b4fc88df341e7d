package crd

import (
	"fmt"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// convert converts an object to a version and prunes it by that version's schema. It may change and
// return its argument. On conversion to the storage version it applies defaults, so that stored
// objects are complete.
func (c *compiled) convert(u *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	from := u.GroupVersionKind()
	to := schema.GroupVersion{Group: c.group, Version: version}
	if from.GroupVersion() == to {
		return u, nil
	}
	// for example, managedFields name a version that was removed
	if _, err := c.version(version); err != nil {
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to)
	}
	if _, err := c.version(from.Version); err != nil || from.Group != c.group {
		return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", from.GroupVersion())
	}
	if c.webhook {
		converted, err := c.callWebhook(u, to)
		if err != nil {
			return nil, err
		}
		u = converted
	} else {
		u.SetAPIVersion(to.String())
	}
	if _, err := c.coerce(u, coercion{}); err != nil {
		return nil, err
	}
	if version == c.storage {
		return u, c.applyDefaults(u)
	}
	return u, nil
}

// Waits implements [resource.Waiting].
func (c *codec) Waits() bool { return c.webhook }

func (c *compiled) callWebhook(u *unstructured.Unstructured,
	to schema.GroupVersion) (*unstructured.Unstructured, error) {
	convertor, err := c.convertor()
	if err != nil {
		return nil, fmt.Errorf("conversion of %s: %w", c.name, err)
	}
	out, err := convertor.ConvertToVersion(u, to)
	if err != nil {
		// The webhook failed, not the client.
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
		}}
	}
	converted, ok := out.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("conversion of %s: got a %T", c.name, out)
	}
	return converted, nil
}

// convertor implements the interface of admission and field managers with convert. It never changes
// its argument.
type convertor struct{ *compiled }

func (c convertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	if !ok {
		return nil, fmt.Errorf("%v is unstructured and is not suitable for converting to %q", from, target)
	}
	switch obj := in.(type) {
	case *autoscalingv1.Scale:
		return obj, nil // Scale has one version here
	case *unstructured.Unstructured:
		if from.GroupVersion() == to.GroupVersion() {
			return obj, nil
		}
		return c.convert(obj.DeepCopy(), to.Version)
	default:
		return nil, fmt.Errorf("input type %T in not valid for unstructured conversion", in)
	}
}

func (c convertor) Convert(in, out, _ any) error {
	if scale, ok := in.(*autoscalingv1.Scale); ok {
		if target, ok := out.(*autoscalingv1.Scale); ok {
			scale.DeepCopyInto(target)
			return nil
		}
	}
	source, ok := in.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("input type %T in not valid for unstructured conversion to %T", in, out)
	}
	target, ok := out.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("output type %T in not valid for unstructured conversion from %T", out, in)
	}
	converted, err := c.convert(source.DeepCopy(), target.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	target.Object = converted.Object
	return nil
}

func (c convertor) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return c.fieldLabel(gvk.Version, label, value)
}

// creater creates empty custom objects and Scales.
type creater struct{}

func (creater) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if gvk == autoscalingv1.SchemeGroupVersion.WithKind("Scale") {
		return &autoscalingv1.Scale{}, nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// defaulter applies the defaults of an object's version.
type defaulter struct{ *compiled }

func (d defaulter) Default(in runtime.Object) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return
	}
	_ = d.applyDefaults(u) // an unusable schema has no defaults
}
