package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	seav1 "kelson.dev/bench/explore/fleet/api/v1"
)

const berthFinalizer = "sea.example.com/berth"

// ShipReconciler creates a Berth for each Ship. A Berth has no owner reference, so the reconciler
// deletes it before it removes the Ship's finalizer.
type ShipReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=sea.example.com,resources=ships/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=sea.example.com,resources=ships/finalizers,verbs=update
// +kubebuilder:rbac:groups=sea.example.com,resources=berths,verbs=get;list;watch;create;delete

// Reconcile creates the Berth of a Ship, and deletes it when the Ship is deleted.
func (r *ShipReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ship seav1.Ship
	if err := r.Get(ctx, req.NamespacedName, &ship); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	berth := &seav1.Berth{ObjectMeta: metav1.ObjectMeta{Namespace: ship.Namespace, Name: ship.Name},
		Spec: seav1.BerthSpec{Ship: ship.Name}}
	if ship.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(&ship, berthFinalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.Delete(ctx, berth); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&ship, berthFinalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &ship))
	}
	if controllerutil.AddFinalizer(&ship, berthFinalizer) {
		return ctrl.Result{}, r.Update(ctx, &ship)
	}
	if err := r.Get(ctx, client.ObjectKeyFromObject(berth), &seav1.Berth{}); apierrors.IsNotFound(err) {
		if err := r.Create(ctx, berth); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if ship.Status.Berth == berth.Name {
		return ctrl.Result{}, nil
	}
	ship.Status.Berth = berth.Name
	return ctrl.Result{}, r.Status().Update(ctx, &ship)
}

// SetupWithManager adds the controller to a manager.
func (r *ShipReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&seav1.Ship{}).
		Watches(&seav1.Berth{}, &handler.EnqueueRequestForObject{}). // it has the name of its Ship
		Complete(r)
}
