package crd

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/apiserver/resource"
)

// scaleSubresource shows the replica counts of a kind as an autoscaling/v1 Scale. The view uses the
// paths of the hub's version. Clients cannot request a scale in a version without one.
func (k *kind) scaleSubresource(hub string, versions []string) resource.Subresource {
	paths := k.versions[hub].scale()
	if paths == nil {
		paths = k.versions[versions[0]].scale()
	}
	view := &scaleView{paths: paths}
	return resource.Subresource{
		Name: "scale", Versions: versions,
		GVK: autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
		Update: &resource.UpdateView{
			Strategy: &strategy{compiled: k.compiled, hub: hub},
			NewView:  func() runtime.Object { return &autoscalingv1.Scale{} },
			Table: func() upstream.TableConvertor {
				return newTable(&apiextensionsv1.CustomResourceDefinitionVersion{
					AdditionalPrinterColumns: scaleColumns()})
			},
			Replicas: k.replicasPath,
			Get: func(hub runtime.Object) (runtime.Object, error) {
				return view.get(hub.(*unstructured.Unstructured))
			},
			Set: func(hub, scale runtime.Object) error {
				return view.set(hub.(*unstructured.Unstructured), scale)
			},
		},
	}
}

// scaleColumns returns the table columns of a Scale.
func scaleColumns() []apiextensionsv1.CustomResourceColumnDefinition {
	return []apiextensionsv1.CustomResourceColumnDefinition{
		{Name: "Desired", Type: "integer", Description: "Number of desired replicas", JSONPath: ".spec.replicas"},
		{Name: "Available", Type: "integer", Description: "Number of actual replicas", JSONPath: ".status.replicas"},
		ageColumn(),
	}
}

// replicasPath returns the path of spec.replicas in a version; nil if the version has no scale.
func (k *kind) replicasPath(version string) fieldpath.Path {
	v, ok := k.versions[version]
	if !ok || v.scale() == nil {
		return nil
	}
	var path fieldpath.Path
	for _, name := range split(v.scale().SpecReplicasPath) {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	return path
}

// scaleView translates between a custom object and its Scale.
type scaleView struct {
	paths *apiextensionsv1.CustomResourceSubresourceScale
}

func split(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

func (v *scaleView) get(u *unstructured.Unstructured) (*autoscalingv1.Scale, error) {
	paths := v.paths
	// An object without the field shows 0 replicas, so that clients can scale it: they read a scale
	// before they write it.
	wanted, _, err := unstructured.NestedInt64(u.Object, split(paths.SpecReplicasPath)...)
	if err != nil {
		return nil, err
	}
	have, _, err := unstructured.NestedInt64(u.Object, split(paths.StatusReplicasPath)...)
	if err != nil {
		return nil, err
	}
	selector := ""
	if paths.LabelSelectorPath != nil && *paths.LabelSelectorPath != "" {
		if selector, _, err = unstructured.NestedString(u.Object, split(*paths.LabelSelectorPath)...); err != nil {
			return nil, err
		}
	}
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(),
			ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(wanted)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(have), Selector: selector},
	}, nil
}

func (v *scaleView) set(u *unstructured.Unstructured, view runtime.Object) error {
	scale, ok := view.(*autoscalingv1.Scale)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("wrong object passed to Scale update: %v", view))
	}
	return unstructured.SetNestedField(u.Object, int64(scale.Spec.Replicas), split(v.paths.SpecReplicasPath)...)
}
