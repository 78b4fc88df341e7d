package internal

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Close is a method in another file than Reconcile.
func (r *ShopReconciler) Close(ctx context.Context, shop *Shop) (ctrl.Result, error) {
	if err := closeDoors(ctx, r.Client, shop); err != nil {
		return ctrl.Result{Requeue: true}, err
	}
	return pause, nil
}

// closeDoors is a part of the reconciler, because Close calls it.
func closeDoors(ctx context.Context, c client.Client, shop *Shop) error {
	return c.Status().Update(ctx, shop)
}

var pause = ctrl.Result{Requeue: true, RequeueAfter: time.Minute}

// SetUp is a part of the reconciler, because it names its type.
func SetUp(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&Shop{}).Complete(&ShopReconciler{})
}

// Independent is a part of no reconciler.
func Independent(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&Shop{}).Complete(nil)
}
