package internal

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

type Shop struct{ Name string }

func (s *Shop) GetName() string { return s.Name }

// ShopReconciler opens shops.
type ShopReconciler struct{ client.Client }

func (r *ShopReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	shop := &Shop{}
	if err := r.Get(ctx, req.Name, shop); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Status().Update(ctx, shop); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Minute}, nil
}

func (r *ShopReconciler) SetupWithManager(m ctrl.Manager) error {
	no := false
	return ctrl.NewControllerManagedBy(m).
		For(&Shop{}).
		Owns(&Shop{}).
		WatchesMetadata(&Shop{}).
		WithOptions(controller.TypedOptions[ctrl.Request]{MaxConcurrentReconciles: 4, UsePriorityQueue: &no}).
		Complete(r)
}

// Reconcile is not a reconciler of controller-runtime's.
type Other struct{}

func (Other) Reconcile(context.Context) error { return nil }
