package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator"
	"kelson.dev/operator/reconcile"

	webappv1 "kelson.dev/examples/welcome/api/v1"
)

// +kubebuilder:rbac:groups=webapp.demo.welcome.domain,resources=welcomes,verbs=get;list;watch
// +kubebuilder:rbac:groups=webapp.demo.welcome.domain,resources=welcomes/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=webapp.demo.welcome.domain,resources=welcomes/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch

// ConditionReady is true while all pods serve the page.
const ConditionReady = "Ready"

// WelcomeController returns the part of the operator that reconciles Welcome objects.
func WelcomeController() operator.Part {
	return operator.For(NewWelcomeReconciler, operator.Owns[appsv1.Deployment](), operator.Owns[corev1.Service]())
}

// WelcomeReconciler creates a front end for each Welcome: a Deployment that serves its page, and a
// Service.
type WelcomeReconciler struct{ operator.Deps }

// NewWelcomeReconciler returns a WelcomeReconciler.
func NewWelcomeReconciler(deps operator.Deps) *WelcomeReconciler { return &WelcomeReconciler{deps} }

// Reconcile is called when a Welcome, its Deployment or its Service has changed. The Welcome owns
// both, so the garbage collector deletes them with it.
func (r *WelcomeReconciler) Reconcile(ctx context.Context, welcome *webappv1.Welcome) (operator.Result, error) {
	deployment, err := operator.Apply(ctx, r.Client, deploymentOf(welcome))
	if err != nil {
		return operator.Result{}, err
	}
	service, err := operator.Apply(ctx, r.Client, serviceOf(welcome))
	if err != nil {
		return operator.Result{}, err
	}
	welcome.Status.URL = fmt.Sprintf("http://%s.%s.svc", service.Name, service.Namespace)
	welcome.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	reconcile.SetCondition(welcome, readiness(welcome, deployment))
	return operator.Result{}, nil
}

// readiness returns the condition Ready according to the Deployment.
func readiness(welcome *webappv1.Welcome, deployment *appsv1.Deployment) metav1.Condition {
	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: "Serving",
		Message: "all pods serve the page"}
	status := deployment.Status
	if status.ObservedGeneration < deployment.Generation || status.UpdatedReplicas < welcome.Spec.Replicas ||
		status.AvailableReplicas < welcome.Spec.Replicas {
		ready.Status, ready.Reason = metav1.ConditionFalse, "Starting"
		ready.Message = fmt.Sprintf("%d of %d pods serve the page",
			min(status.AvailableReplicas, status.UpdatedReplicas), welcome.Spec.Replicas)
	}
	return ready
}
