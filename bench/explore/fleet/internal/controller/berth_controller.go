package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	seav1 "kelson.dev/bench/explore/fleet/api/v1"
)

// BerthReconciler creates the manifest of each Berth.
type BerthReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=sea.example.com,resources=berths/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=sea.example.com,resources=berths/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create

// Reconcile creates the manifest.
func (r *BerthReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var berth seav1.Berth
	if err := r.Get(ctx, req.NamespacedName, &berth); err != nil || berth.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	manifest := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: berth.Namespace,
		Name: berth.Name + "-manifest"}}
	if err := r.Get(ctx, client.ObjectKeyFromObject(manifest), &corev1.ConfigMap{}); apierrors.IsNotFound(err) {
		manifest.Data = map[string]string{"ship": berth.Spec.Ship}
		if err := controllerutil.SetControllerReference(&berth, manifest, r.Scheme); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Create(ctx, manifest); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if berth.Status.Manifest == manifest.Name {
		return ctrl.Result{}, nil
	}
	berth.Status.Manifest = manifest.Name
	return ctrl.Result{}, r.Status().Update(ctx, &berth)
}

// SetupWithManager adds the controller to a manager.
func (r *BerthReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&seav1.Berth{}).Owns(&corev1.ConfigMap{}).Complete(r)
}
