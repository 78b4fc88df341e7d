package operator

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/workqueue"
)

// Option changes a controller.
type Option func(*settings)

type settings struct {
	name        string
	finalizer   string
	prototype   Object
	concurrency int
	timeout     time.Duration
	resync      time.Duration
	limiter     workqueue.Limiter[Request]
	predicates  []Predicate
	every       bool
	sharded     bool
	watches     []func(watching) (controller.Source, error)
}

func (s *settings) clone() *settings {
	c := *s
	return &c
}

// watching is what a watch is made for.
type watching struct {
	cluster    *manager.Cluster
	owner      schema.GroupVersionKind
	reconciler any
}

// Owns has a change of an object of kind T reconcile the object that is its controller by its owner references.
func Owns[T any, P client.Pointer[T]](predicates ...Predicate) Option {
	return func(s *settings) {
		s.watches = append(s.watches, func(w watching) (controller.Source, error) {
			return &controller.Kind{
				Informers: w.cluster.Informers(), Cluster: w.cluster.Name(), Object: P(new(T)), Predicates: predicates,
				Handler: controller.EnqueueOwner(w.owner, w.cluster.Client().Mapper()),
			}, nil
		})
	}
}

// Watches has a change of an object of kind T reconcile the objects that which names. R is the reconciler, so which is best a method of
// it:
//
//	operator.For(NewAtReconciler, operator.Watches((*AtReconciler).usersOf))
//
//	func (r *AtReconciler) usersOf(ctx context.Context, cm *corev1.ConfigMap) []operator.Request
//
// Of an update, the object before and after are asked about. They must not be changed.
func Watches[R, T any, P client.Pointer[T]](which func(r R, ctx context.Context, obj *T) []Request, predicates ...Predicate) Option {
	return func(s *settings) {
		s.watches = append(s.watches, func(w watching) (controller.Source, error) {
			r, ok := w.reconciler.(R)
			if !ok {
				return nil, fmt.Errorf("watches %v by a method of %v, but the reconciler is a %T", reflect.TypeFor[T](), reflect.TypeFor[R](), w.reconciler)
			}
			ctx := w.cluster.Context() // what r asks its client is asked of the object's cluster
			return &controller.Kind{
				Informers: w.cluster.Informers(), Cluster: w.cluster.Name(), Object: P(new(T)), Predicates: predicates,
				Handler: controller.EnqueueMapped(func(obj client.Object) []Request { return which(r, ctx, (*T)(obj.(P))) }),
			}, nil
		})
	}
}

// From has a source of one's own say what to reconcile.
func From(source controller.Source) Option {
	return func(s *settings) {
		s.watches = append(s.watches, func(w watching) (controller.Source, error) {
			if w.cluster.Name() != "" {
				return nil, nil // it is there once
			}
			return source, nil
		})
	}
}

// OnEveryReplica has the controller work also where another replica leads.
func OnEveryReplica() Option { return func(s *settings) { s.every = true } }

// Sharded divides the objects among all replicas, also where there is an election: each reconciles those that fall to it, and none is
// ever with two. The replicas find each other by Leases in the namespace of the election (Config.Election), of the pod that they run in,
// or else in default.
func Sharded() Option { return func(s *settings) { s.every, s.sharded = true, true } }

// Filter drops events of the controller's own kind that a predicate does not let pass.
func Filter(predicates ...Predicate) Option {
	return func(s *settings) { s.predicates = append(s.predicates, predicates...) }
}

// Concurrency is how many objects are reconciled at a time; one by default. One object never is twice. If it is more than one, the next object is
// begun while the status of another is written, so that up to three times as many requests may be under way.
func Concurrency(n int) Option { return func(s *settings) { s.concurrency = n } }

// Timeout ends the context of a Reconcile that takes longer.
func Timeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// Resync reconciles every object every so often, although nothing happened. It is for what cannot be watched.
func Resync(every time.Duration) Option { return func(s *settings) { s.resync = every } }

// Backoff says when errors are retried; by default after 5 ms, doubling up to 1000 s.
func Backoff(l workqueue.Limiter[Request]) Option { return func(s *settings) { s.limiter = l } }

// Named is the name of the controller in logs, metrics and events; by default its kind in lower case. Two controllers for one kind need
// names.
func Named(name string) Option { return func(s *settings) { s.name = name } }

// FinalizerName is the name of the finalizer of a reconciler with a method Finalize; by default <group>/<name of the controller>.
func FinalizerName(name string) Option { return func(s *settings) { s.finalizer = name } }

// Kind says which kind a controller for *unstructured.Unstructured is for.
func Kind(kind schema.GroupVersionKind) Option {
	return func(s *settings) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		s.prototype = u
	}
}
