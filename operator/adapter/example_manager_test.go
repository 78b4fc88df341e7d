package adapter_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/adapter"
)

// A program for controller-runtime changes only its call of NewManager.
func ExampleNewManager() {
	mgr, err := adapter.NewManager(ctrl.GetConfigOrDie(),
		ctrl.Options{LeaderElection: true, LeaderElectionID: "pods.example.com"})
	if err != nil {
		panic(err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		Owns(&corev1.Pod{}).
		Complete(&podReconciler{mgr.GetClient()})
	if err != nil {
		panic(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}

type podReconciler struct{ client.Client }

func (r *podReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cm := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, cm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// … the list has the pods that this reconciler has just created
	return ctrl.Result{}, r.List(ctx, &corev1.PodList{}, client.InNamespace(req.Namespace))
}
