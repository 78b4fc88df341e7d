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

const (
	berthFinalizer = "sea.example.com/berth"
	// shipAnnotation is the UID of the Ship for which the reconciler has created a Berth.
	shipAnnotation = "sea.example.com/ship"
)

// ShipReconciler creates a Berth for each Ship. A Berth has no owner reference, so the reconciler
// deletes it before it removes the Ship's finalizer. It neither uses nor deletes a Berth of the
// same name that another client has created: the Ship then has no Berth until that one is gone.
type ShipReconciler struct {
	client.Client
	Reader client.Reader // without a cache
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
	if ship.DeletionTimestamp != nil {
		return ctrl.Result{}, r.release(ctx, &ship)
	}
	if controllerutil.AddFinalizer(&ship, berthFinalizer) {
		return ctrl.Result{}, r.Update(ctx, &ship)
	}
	berth := &seav1.Berth{}
	if err := r.Get(ctx, req.NamespacedName, berth); apierrors.IsNotFound(err) {
		berth = &seav1.Berth{ObjectMeta: metav1.ObjectMeta{Namespace: ship.Namespace, Name: ship.Name,
			Annotations: map[string]string{shipAnnotation: string(ship.UID)}}, Spec: seav1.BerthSpec{Ship: ship.Name}}
		if err := r.Create(ctx, berth); apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, nil // its event comes, and shows whose it is
		} else if err != nil {
			return ctrl.Result{}, err
		}
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !isBerthOf(berth, &ship) || ship.Status.Berth == berth.Name {
		return ctrl.Result{}, nil
	}
	ship.Status.Berth = berth.Name
	return ctrl.Result{}, r.Status().Update(ctx, &ship)
}

// release deletes the Berth of a Ship that is deleted. It asks the API server for the Berth,
// because the cache may lack one that the reconciler has just created.
func (r *ShipReconciler) release(ctx context.Context, ship *seav1.Ship) error {
	if !controllerutil.ContainsFinalizer(ship, berthFinalizer) {
		return nil
	}
	berth := &seav1.Berth{}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(ship), berth)
	if err == nil && isBerthOf(berth, ship) {
		err = r.Delete(ctx, berth, client.Preconditions{UID: &berth.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	controllerutil.RemoveFinalizer(ship, berthFinalizer)
	return client.IgnoreNotFound(r.Update(ctx, ship))
}

// isBerthOf reports whether the reconciler has created a Berth for a Ship.
func isBerthOf(berth *seav1.Berth, ship *seav1.Ship) bool {
	return berth.Annotations[shipAnnotation] == string(ship.UID)
}

// SetupWithManager adds the controller to a manager.
func (r *ShipReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&seav1.Ship{}).
		Watches(&seav1.Berth{}, &handler.EnqueueRequestForObject{}). // it has the name of its Ship
		Complete(r)
}
