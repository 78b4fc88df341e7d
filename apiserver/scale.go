package apiserver

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/apiserver/resource"
)

// Replicas are the parts of an object that its subresource scale shows.
type Replicas struct {
	// Desired points to the field of the object that a write of the scale changes. It must not be
	// nil.
	Desired *int32
	// Current is the number of replicas that exist.
	Current int32
	// Selector is the label selector of the replicas' pods, as text.
	Selector string
}

// Scale adds the subresource scale, for kubectl scale and autoscalers. path is the path of the
// desired number in all versions, such as "spec.replicas"; managedFields use it.
func Scale[H runtime.Object](path string, replicas func(obj H) Replicas) KindOption {
	return kindFunc(func(k *kind) {
		if _, ok := k.hub().proto.(H); !ok {
			k.fail("scale of %s is for %T, and the hub is %T", k.name, *new(H), k.hub().proto)
			return
		}
		k.subs = append(k.subs, func(s *Server, k *kind) resource.Subresource {
			if !s.scheme.Recognizes(scaleKind) {
				s.scheme.AddKnownTypes(autoscalingv1.SchemeGroupVersion, &autoscalingv1.Scale{})
			}
			return resource.Subresource{Name: "scale", GVK: scaleKind, Update: &resource.UpdateView{
				Strategy: newStrategy(k, s.scheme),
				NewView:  func() runtime.Object { return &autoscalingv1.Scale{} },
				Get:      func(hub runtime.Object) (runtime.Object, error) { return showScale(hub, replicas(hub.(H))) },
				Set:      func(hub, view runtime.Object) error { return setScale(view, replicas(hub.(H))) },
				Replicas: func(string) fieldpath.Path { return fieldPath(path) },
				Table:    func() upstream.TableConvertor { return newTabler(scaleColumns()) },
			}}
		})
	})
}

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

func fieldPath(path string) (all fieldpath.Path) {
	for name := range strings.SplitSeq(path, ".") {
		all = append(all, fieldpath.PathElement{FieldName: &name})
	}
	return all
}

func showScale(hub runtime.Object, r Replicas) (runtime.Object, error) {
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: scaleKind.GroupVersion().String(), Kind: scaleKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
			ResourceVersion: object.GetResourceVersion(), CreationTimestamp: object.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: *r.Desired},
		Status: autoscalingv1.ScaleStatus{Replicas: r.Current, Selector: r.Selector},
	}, nil
}

func setScale(view runtime.Object, r Replicas) error {
	scale, ok := view.(*autoscalingv1.Scale)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("wrong object passed to Scale update: %T", view))
	}
	if scale.Spec.Replicas < 0 {
		return apierrors.NewInvalid(scaleKind.GroupKind(), scale.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	*r.Desired = scale.Spec.Replicas
	return nil
}

func scaleColumns() []column {
	return []column{
		{name: "Desired", kind: "integer", description: "Number of desired replicas",
			value: func(obj runtime.Object) any { return obj.(*autoscalingv1.Scale).Spec.Replicas }},
		{name: "Available", kind: "integer", description: "Number of actual replicas",
			value: func(obj runtime.Object) any { return obj.(*autoscalingv1.Scale).Status.Replicas }},
	}
}
