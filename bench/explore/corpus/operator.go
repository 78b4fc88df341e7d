package corpus

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/lab/explore"
)

// finalizer is the finalizer of those operators that have one.
const finalizer = "example.com/corpus"

// reconciler reconciles one ConfigMap. One that no longer exists has a name, a deletion timestamp
// and no UID.
type reconciler func(context.Context, client.Client, *corev1.ConfigMap) error

// cached is the client of a process. It reads from the manager's cache.
type cached struct {
	client.Client
	live  client.Reader
	cache cache.Cache
}

// writeBack puts an object into the cache, as if an event had brought it.
func (c cached) writeBack(ctx context.Context, obj client.Object) error {
	informer, err := c.cache.GetInformer(ctx, obj)
	if err != nil {
		return err
	}
	return informer.(toolscache.SharedIndexInformer).GetStore().Update(obj)
}

// run returns a Scenario.Operator. The function start creates the reconciler of each process; owns
// are the kinds of its children.
func run(start func() reconciler, owns ...client.Object) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, rest *rest.Config) error {
		mgr, err := ctrl.NewManager(rest, ctrl.Options{
			Scheme:     clientgoscheme.Scheme,
			Logger:     logr.FromSlogHandler(explore.Log(ctx).Handler()),
			Metrics:    metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		})
		if err != nil {
			return err
		}
		c, each := cached{mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache()}, start()
		build := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{})
		for _, kind := range owns {
			build.Owns(kind)
		}
		err = build.Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var cm corev1.ConfigMap
				switch err := c.Get(ctx, req.NamespacedName, &cm); {
				case apierrors.IsNotFound(err):
					cm.Namespace, cm.Name, cm.DeletionTimestamp = req.Namespace, req.Name, ptr.To(metav1.Now())
				case err != nil || cm.Name == "kube-root-ca.crt":
					return reconcile.Result{}, err
				}
				return reconcile.Result{}, each(ctx, c, &cm)
			}))
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

// stateless returns a start function of a reconciler without memory.
func stateless(r reconciler) func() reconciler { return func() reconciler { return r } }

// alive calls a reconciler for ConfigMaps that are not being deleted.
func alive(r reconciler) reconciler {
	return func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if cm.DeletionTimestamp != nil {
			return nil
		}
		return r(ctx, c, cm)
	}
}

// resource is the ConfigMap that users create.
func resource(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Data: data}
}

// secret returns a child as an object with only its name, whether or not it exists.
func secret(cm *corev1.ConfigMap, suffix string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name + suffix}}
}

// ensure creates a child with a value if it does not exist.
func ensure(ctx context.Context, c client.Client, cm *corev1.ConfigMap, suffix, value string) error {
	child := secret(cm, suffix)
	if err := c.Get(ctx, client.ObjectKeyFromObject(child), child); !apierrors.IsNotFound(err) {
		return err
	}
	child.Data = map[string][]byte{"value": []byte(value)}
	if err := controllerutil.SetControllerReference(cm, child, clientgoscheme.Scheme); err != nil {
		return err
	}
	if err := c.Create(ctx, child); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
