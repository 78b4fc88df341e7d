package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	seav1 "kelson.dev/bench/explore/fleet/api/v1"
)

// FleetReconciler creates the Ships of Fleets.
type FleetReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=sea.example.com,resources=fleets,verbs=get;list;watch
// +kubebuilder:rbac:groups=sea.example.com,resources=fleets/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=sea.example.com,resources=ships,verbs=get;list;watch;create;update;patch;delete

// Reconcile creates missing Ships and deletes superfluous ones.
func (r *FleetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var fleet seav1.Fleet
	if err := r.Get(ctx, req.NamespacedName, &fleet); err != nil || fleet.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var ships seav1.ShipList
	if err := r.List(ctx, &ships, client.InNamespace(fleet.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	owned := map[string]*seav1.Ship{}
	for i := range ships.Items {
		if metav1.IsControlledBy(&ships.Items[i], &fleet) {
			owned[ships.Items[i].Name] = &ships.Items[i]
		}
	}
	var moored int32
	for i := range fleet.Spec.Ships {
		name := fmt.Sprintf("%s-%d", fleet.Name, i)
		ship := owned[name]
		delete(owned, name)
		switch {
		case ship == nil:
			ship = &seav1.Ship{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: name},
				Spec: seav1.ShipSpec{Cargo: fleet.Spec.Cargo}}
			if err := controllerutil.SetControllerReference(&fleet, ship, r.Scheme); err != nil {
				return ctrl.Result{}, err
			}
			if err := r.Create(ctx, ship); err != nil && !apierrors.IsAlreadyExists(err) {
				return ctrl.Result{}, err
			}
		case ship.Spec.Cargo != fleet.Spec.Cargo:
			ship.Spec.Cargo = fleet.Spec.Cargo
			if err := r.Update(ctx, ship); err != nil {
				return ctrl.Result{}, err
			}
		}
		if ship.Status.Berth != "" {
			moored++
		}
	}
	for _, ship := range ships.Items {
		if _, superfluous := owned[ship.Name]; superfluous && ship.DeletionTimestamp == nil {
			if err := r.Delete(ctx, &ship, client.Preconditions{UID: &ship.UID}); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
	}
	status := seav1.FleetStatus{ObservedGeneration: fleet.Generation, Moored: moored}
	if fleet.Status == status {
		return ctrl.Result{}, nil
	}
	fleet.Status = status
	return ctrl.Result{}, r.Status().Update(ctx, &fleet)
}

// SetupWithManager adds the controller to a manager.
func (r *FleetReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&seav1.Fleet{}).Owns(&seav1.Ship{}).Complete(r)
}
