// Command cainjector runs cert-manager's CA injectors. cert-manager's own program is in a module
// of its repository that the Go module proxy does not serve; like this one, it gives the injectors
// a manager of controller-runtime.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/cert-manager/cert-manager/pkg/api"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	metrics := flag.String("metrics-bind-address", "0", "`address` of the metrics, without TLS")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie(), *metrics); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs all injectors until the context ends.
func run(ctx context.Context, config *rest.Config, metrics string) error {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(api.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(apiregistrationv1.AddToScheme(s))
	// The injectors apply under this name.
	config.UserAgent = "cainjector"
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  s,
		Metrics: metricsserver.Options{BindAddress: metrics},
		// Secrets are watched as metadata, and read from the server.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{EnableCertificatesDataSource: true, EnabledReconcilersFor: map[string]bool{
		cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
		cainjector.APIServiceName: true, cainjector.CustomResourceDefinitionName: true,
	}})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
