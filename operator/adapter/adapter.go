// Package adapter runs programs and reconcilers written for controller-runtime on
// kelson.dev/operator.
//
// # A whole program
//
// [NewManager] replaces ctrl.NewManager, and nothing else changes:
//
//	mgr, err := adapter.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{…})
//
// The program keeps controller-runtime's builder, controllers and webhooks. Its cache and client
// are the library's: reads see the program's own writes, and reconciles can be traced.
//
// # Single reconcilers
//
// A reconciler can instead run on the library's own manager. It then gains the features of its
// controllers too: queues with aging, shards, and readiness checks that name missing permissions.
// In SetupWithManager, only the builder changes. Its methods are those of controller-runtime's.
//
//	func (r *FooReconciler) SetupWithManager(m *manager.Manager) error {
//		return adapter.NewControllerManagedBy(m).
//			For(&foov1.Foo{}).
//			Owns(&appsv1.Deployment{}).
//			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.foosOf)).
//			Complete(r)
//	}
//
// The reconciler's client is [Client]:
//
//	operator.Main(
//		operator.AddToScheme(foov1.AddToScheme),
//		operator.Setup(func(deps operator.Deps) error {
//			c := adapter.Client(deps.Manager)
//			r := &FooReconciler{Client: c, Scheme: c.Scheme()}
//			return r.SetupWithManager(deps.Manager)
//		}),
//	)
//
// The package is a separate module, so that only its users depend on controller-runtime.
package adapter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/workqueue"
)

// Reconciler adapts a reconciler of controller-runtime. Its context has the logger for
// controller-runtime's log.FromContext.
func Reconciler(r crreconcile.Reconciler) reconcile.Reconciler { return &reconciler{upstream: r} }

type reconciler struct {
	upstream crreconcile.Reconciler
	logs     func(*crreconcile.Request) logr.Logger // may be nil

	mu sync.Mutex
	// by cluster: backoff of objects whose Reconcile returned Requeue
	backoffs map[string]*workqueue.Exponential[reconcile.Request]
}

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request := crreconcile.Request{NamespacedName: req.NamespacedName}
	logger := logr.FromSlogHandler(reconcile.Log(ctx).Handler())
	if r.logs != nil {
		logger = r.logs(&request)
	}
	result, err := r.upstream.Reconcile(logr.NewContext(ctx, logger), request)
	switch {
	case errors.Is(err, crreconcile.TerminalError(nil)):
		return reconcile.Result{}, reconcile.Terminal(err)
	case err != nil:
		return reconcile.Result{}, err
	case result.RequeueAfter > 0:
		r.backoff(req.Cluster).Forget(req)
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
	//lint:ignore SA1019 there are reconcilers that use it
	case result.Requeue:
		return reconcile.Result{RequeueAfter: r.backoff(req.Cluster).When(req)}, nil
	}
	r.backoff(req.Cluster).Forget(req)
	return reconcile.Result{}, nil
}

func (r *reconciler) backoff(cluster string) *workqueue.Exponential[reconcile.Request] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backoffs == nil {
		r.backoffs = map[string]*workqueue.Exponential[reconcile.Request]{}
	}
	if r.backoffs[cluster] == nil {
		r.backoffs[cluster] = &workqueue.Exponential[reconcile.Request]{}
	}
	return r.backoffs[cluster]
}

// Disengage drops the state of a cluster's objects.
func (r *reconciler) Disengage(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.backoffs, cluster)
}

type limiter struct {
	upstream interface {
		When(crreconcile.Request) time.Duration
		Forget(crreconcile.Request)
		NumRequeues(crreconcile.Request) int
	}
}

func (l limiter) When(r reconcile.Request) time.Duration { return l.upstream.When(theirs(r)) }
func (l limiter) Forget(r reconcile.Request)             { l.upstream.Forget(theirs(r)) }
func (l limiter) NumRequeues(r reconcile.Request) int    { return l.upstream.NumRequeues(theirs(r)) }

// theirs returns a request for a controller-runtime limiter. It adds the cluster to the namespace,
// to distinguish objects of the same name in different clusters.
func theirs(r reconcile.Request) crreconcile.Request {
	t := crreconcile.Request{NamespacedName: r.NamespacedName}
	if r.Cluster != "" {
		t.Namespace = r.Cluster + ":" + r.Namespace
	}
	return t
}

var errNoGet = errors.New("handlers may only add to the queue")
