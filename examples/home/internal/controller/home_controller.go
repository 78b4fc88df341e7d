package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator"
	"kelson.dev/operator/reconcile"

	ajdv1 "kelson.dev/examples/home/api/v1"
)

// +kubebuilder:rbac:groups=ajd.demo.welcome.domain,resources=homes,verbs=get;list;watch
// +kubebuilder:rbac:groups=ajd.demo.welcome.domain,resources=homes/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=ajd.demo.welcome.domain,resources=homes/finalizers,verbs=update

// HomeController returns the part of the operator that reconciles Home objects. Name kinds that the
// reconciler creates here, as in operator.For(NewHomeReconciler,
// operator.Owns[corev1.Pod]()), and in an rbac marker above.
func HomeController() operator.Part {
	return operator.For(NewHomeReconciler)
}

// HomeReconciler makes the cluster match the specs of Home objects.
type HomeReconciler struct{ operator.Deps }

// NewHomeReconciler returns a HomeReconciler.
func NewHomeReconciler(deps operator.Deps) *HomeReconciler { return &HomeReconciler{deps} }

// Reconcile updates the status of the Home. The library writes the status after Reconcile returns.
func (r *HomeReconciler) Reconcile(ctx context.Context, home *ajdv1.Home) (operator.Result, error) {
	if home.Status.Seen != home.Spec.Foo {
		operator.Log(ctx).Info("home changed", "foo", home.Spec.Foo, "before", home.Status.Seen)
	}
	home.Status.Seen = home.Spec.Foo
	reconcile.SetCondition(home, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Seen", Message: "the status shows the spec",
	})
	return operator.Result{}, nil
}
