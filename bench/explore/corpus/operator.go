package corpus

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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

// operators are the operators of the corpus, by name, with the kind of their children.
var operators = map[string]struct {
	start func(fixed bool) func() reconciler
	owns  client.Object
}{
	"deletes-by-name":             {deletesByName, &corev1.Secret{}},
	"resizes-after-delete":        {deletesThenResizes, &corev1.Secret{}},
	"one-check-for-two":           {checksOne, &corev1.Secret{}},
	"progress-in-memory":          {remembers, &corev1.Secret{}},
	"optional-field":              {dereferences, &corev1.Secret{}},
	"writes-back":                 {writesBack, &corev1.Secret{}},
	"counts-its-cache":            {countsOnce, &corev1.Secret{}},
	"applies":                     {applies, &corev1.Secret{}},
	"writes-a-child-back":         {writesChildBack, &appsv1.ReplicaSet{}},
	"trusts-its-cache":            {managesKey, &corev1.Secret{}},
	"external-reference":          {readsExternal, &corev1.Secret{}},
	"counts-failed-pods":          {countsLeaders, &corev1.Pod{}},
	"updates-blindly":             {updatesBlindly, &corev1.Secret{}},
	"replaces-finalizers":         {replacesFinalizers, &corev1.Secret{}},
	"ignores-older-objects":       {ignoresOlder, &corev1.Secret{}},
	"cleans-up-without-finalizer": {cleansUp, &corev1.Secret{}},
}

// Run is the main function of an operator. With the flag -fixed, the operator does not have its
// bug.
func Run(name string) {
	fixed := flag.Bool("fixed", false, "run the operator without its bug")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(ctrl.SetupSignalHandler(), operators[name].start(*fixed)(), operators[name].owns); err != nil {
		slog.Error("the operator ends", "err", err)
		os.Exit(1)
	}
}

// run runs the operator of a reconciler. owns is the kind of its children.
func run(ctx context.Context, reconciles reconciler, owns client.Object) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: clientgoscheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	c := cached{mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache()}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(owns).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			var cm corev1.ConfigMap
			switch err := c.Get(ctx, req.NamespacedName, &cm); {
			case apierrors.IsNotFound(err):
				cm.Namespace, cm.Name, cm.DeletionTimestamp = req.Namespace, req.Name, ptr.To(metav1.Now())
			case err != nil || cm.Name == "kube-root-ca.crt":
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, reconciles(ctx, c, &cm)
		}))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
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
