package builtin

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/apiserver/resource"
)

// scaled holds the parts of a hub that its scale subresource shows.
type scaled struct {
	desired  *int32 // changed in place
	current  int32
	selector labels.Selector
}

// ownersOfScales is shared by the scales of all kinds.
var ownersOfScales = ownersOf(autoscalingv1.SchemeGroupVersion.WithKind("Scale"), autoscalingv1.SchemeGroupVersion,
	"scale")

// scale returns the scale subresource of a kind. A write to it updates spec.replicas with the
// kind's own strategy.
func scale(strategy resource.Strategy, scaledOf func(hub runtime.Object) (scaled, error)) resource.Subresource {
	return resource.Subresource{
		Name:   "scale",
		GVK:    autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
		Owners: ownersOfScales,
		Update: &resource.UpdateView{
			Strategy: strategy,
			Internal: true,
			NewView:  func() runtime.Object { return &autoscalingv1.Scale{} },
			Get:      func(hub runtime.Object) (runtime.Object, error) { return getScale(hub, scaledOf) },
			Set:      func(hub, view runtime.Object) error { return setScale(hub, view, scaledOf) },
		},
	}
}

func getScale(hub runtime.Object, scaledOf func(runtime.Object) (scaled, error)) (runtime.Object, error) {
	obj, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	s, err := scaledOf(hub)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: *s.desired},
		Status: autoscalingv1.ScaleStatus{Replicas: s.current, Selector: s.selector.String()},
	}, nil
}

func setScale(hub, view runtime.Object, scaledOf func(runtime.Object) (scaled, error)) error {
	v, ok := view.(*autoscalingv1.Scale)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", view))
	}
	internal := &autoscaling.Scale{ObjectMeta: v.ObjectMeta, Spec: autoscaling.ScaleSpec{Replicas: v.Spec.Replicas}}
	if errs := autoscalingvalidation.ValidateScale(internal); len(errs) > 0 {
		return apierrors.NewInvalid(autoscaling.Kind("Scale"), v.Name, errs)
	}
	s, err := scaledOf(hub)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	*s.desired = v.Spec.Replicas
	return nil
}

func deploymentScale(hub runtime.Object) (scaled, error) {
	o := hub.(*apps.Deployment)
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	return scaled{&o.Spec.Replicas, o.Status.Replicas, selector}, err
}

func replicaSetScale(hub runtime.Object) (scaled, error) {
	o := hub.(*apps.ReplicaSet)
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	return scaled{&o.Spec.Replicas, o.Status.Replicas, selector}, err
}

func statefulSetScale(hub runtime.Object) (scaled, error) {
	o := hub.(*apps.StatefulSet)
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	return scaled{&o.Spec.Replicas, o.Status.Replicas, selector}, err
}

func replicationControllerScale(hub runtime.Object) (scaled, error) {
	o := hub.(*core.ReplicationController)
	if o.Spec.Replicas == nil {
		o.Spec.Replicas = new(int32)
	}
	return scaled{o.Spec.Replicas, o.Status.Replicas, labels.SelectorFromSet(o.Spec.Selector)}, nil
}
