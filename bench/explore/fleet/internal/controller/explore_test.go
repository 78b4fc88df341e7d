package controller_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"

	seav1 "kelson.dev/bench/explore/fleet/api/v1"
	"kelson.dev/bench/explore/fleet/internal/controller"
)

// No single fault makes an operator on controller-runtime end in another state.
func TestExplore(t *testing.T) {
	inputs, err := explore.Samples("../../config/samples")
	require.NoError(t, err)
	explore.Run(t, explore.Scenario{
		Env:      []testenv.Option{testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac")},
		Operator: runManager,
		Inputs:   inputs,
	})
}

// A panic from which controller-runtime recovers is an alarm, with its place.
func TestFindsPanic(t *testing.T) {
	scenario := explore.Scenario{
		Operator: func(ctx context.Context, rest *rest.Config) error {
			mgr, err := ctrl.NewManager(rest, options(clientgoscheme.Scheme))
			if err != nil {
				return err
			}
			err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
				Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					if req.Name != "web" {
						return reconcile.Result{}, nil
					}
					var cm corev1.ConfigMap
					if err := mgr.GetClient().Get(ctx, req.NamespacedName, &cm); err != nil || cm.Data["done"] != "" {
						return reconcile.Result{}, client.IgnoreNotFound(err)
					}
					cm.Data = map[string]string{"done": "yes"}
					if err := mgr.GetClient().Update(ctx, &cm); err != nil {
						panic(err) // the bug
					}
					return reconcile.Result{}, nil
				}))
			if err != nil {
				return err
			}
			return mgr.Start(ctx)
		},
		Inputs: []explore.Input{explore.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}})},
	}
	report, err := explore.Explore(t, scenario, explore.Options{OneFault: true})
	require.NoError(t, err)
	t.Log(report.Summary())
	if len(report.Alarms) == 0 || report.Alarms[0].Oracle != "O3" ||
		!strings.Contains(report.Alarms[0].Detail, "explore_test.go:") {
		t.Errorf("alarms %v, want a panic with its place", report.Alarms)
	}
}

// options are manager options with which several managers can run in one process.
func options(scheme *runtime.Scheme) ctrl.Options {
	return ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Each process has controllers of the same names.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
}

func runManager(ctx context.Context, rest *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := seav1.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(rest, options(scheme))
	if err != nil {
		return err
	}
	for _, r := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&controller.FleetReconciler{Client: mgr.GetClient(), Scheme: scheme},
		&controller.ShipReconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Scheme: scheme},
		&controller.BerthReconciler{Client: mgr.GetClient(), Scheme: scheme},
	} {
		if err := r.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}
