package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"

	appsv1 "kelson.dev/examples/simpledeployment/api/v1"
)

// +kubebuilder:rbac:groups=apps.demo.welcome.domain,resources=simpledeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.demo.welcome.domain,resources=simpledeployments/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=apps.demo.welcome.domain,resources=simpledeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete

// ConditionReady is true while the number of ready pods is spec.replicas.
const ConditionReady = "Ready"

// SimpleDeploymentController returns the part of the operator that reconciles SimpleDeployment
// objects.
func SimpleDeploymentController() operator.Part {
	return operator.For(NewSimpleDeploymentReconciler, operator.Owns[corev1.Pod]())
}

// SimpleDeploymentReconciler maintains pods with the names <name>-0, <name>-1 … for each
// SimpleDeployment. The fixed names prevent duplicates.
type SimpleDeploymentReconciler struct{ operator.Deps }

// NewSimpleDeploymentReconciler returns a SimpleDeploymentReconciler.
func NewSimpleDeploymentReconciler(deps operator.Deps) *SimpleDeploymentReconciler {
	return &SimpleDeploymentReconciler{deps}
}

// Reconcile is called when a SimpleDeployment or one of its pods has changed. It reads its own
// earlier writes, so it does not create or delete pods because of an outdated cache.
func (r *SimpleDeploymentReconciler) Reconcile(ctx context.Context,
	sd *appsv1.SimpleDeployment) (operator.Result, error) {
	selector := labels.SelectorFromSet(labelsOf(sd))
	pods, err := client.List[corev1.Pod](ctx, r.Client, client.InNamespace(sd.Namespace),
		client.MatchingSelector{Selector: selector})
	if err != nil {
		return operator.Result{}, err
	}
	wanted := map[string]bool{}
	for i := range sd.Spec.Replicas {
		wanted[podName(sd, i)] = true
	}
	var there, ready int32
	for _, pod := range pods {
		switch {
		case !metav1.IsControlledBy(pod, sd) || pod.DeletionTimestamp != nil:
		case !wanted[pod.Name], pod.Spec.Containers[0].Image != sd.Spec.Image, isOver(pod):
			if err := client.IgnoreNotFound(r.Client.Delete(ctx, pod)); err != nil {
				return operator.Result{}, err
			}
		default:
			there++
			if isReady(pod) {
				ready++
			}
		}
		delete(wanted, pod.Name) // a pod that is being deleted still has the name
	}
	for i := range sd.Spec.Replicas {
		if name := podName(sd, i); wanted[name] {
			if _, err := operator.Apply(ctx, r.Client, podOf(sd, name)); err != nil {
				return operator.Result{}, err
			}
			there++
		}
	}
	sd.Status.Replicas, sd.Status.ReadyReplicas, sd.Status.Selector = there, ready, selector.String()
	condition := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: "AllReady",
		Message: "all pods are ready"}
	if ready != sd.Spec.Replicas {
		condition.Status, condition.Reason = metav1.ConditionFalse, "NotAllReady"
		condition.Message = fmt.Sprintf("%d of %d pods are ready", ready, sd.Spec.Replicas)
	}
	reconcile.SetCondition(sd, condition)
	return operator.Result{}, nil
}
