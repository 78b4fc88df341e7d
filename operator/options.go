package operator

import (
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/workqueue"
)

// Option configures a controller.
type Option func(*settings)

type settings struct {
	name        string
	finalizer   string
	kind        schema.GroupVersionKind // empty means the kind of the Go type
	concurrency int
	timeout     time.Duration
	resync      time.Duration
	limiter     workqueue.Limiter[Request]
	predicates  []Predicate // for the controller's own kind
	all         []Predicate // for all kinds
	priority    func(Event) int
	everyOwner  bool
	every       bool
	sharded     bool
	watches     []watch
}

func (s *settings) clone() *settings {
	c := *s
	return &c
}

// watch is a source of events in addition to the controller's own kind.
type watch struct {
	id     watchID // zero for a custom source
	source func(watching) (controller.Source, error)
}

// watchID identifies a watch within a controller and cluster.
type watchID struct {
	relation string // owns, watches
	kind     schema.GroupVersionKind
	form     reflect.Type
}

// watching has the inputs for the construction of a watch.
type watching struct {
	cluster    *manager.Cluster
	owner      schema.GroupVersionKind
	reconciler any
	settings   *settings
}

// on returns the source of events about objects like obj.
func (w watching) on(obj Object, handler controller.EventHandler, predicates []Predicate) *controller.Kind {
	return &controller.Kind{
		Informers: w.cluster.Informers(), Cluster: w.cluster.Name(), Object: obj, Handler: handler,
		Predicates: slices.Concat(w.settings.all, predicates), Priority: w.settings.priority,
	}
}

// Owns watches kind T. A change to such an object reconciles its controller owner.
func Owns[T any, P client.Pointer[T]](predicates ...Predicate) Option {
	return OwnsKind[T, P](schema.GroupVersionKind{}, predicates...)
}

// Watches watches kind T. After a change to such an object, the controller reconciles the requests
// that toRequests returns. R is the reconciler, so toRequests can be a method expression:
//
//	operator.For(NewAtReconciler, operator.Watches((*AtReconciler).usersOf))
//
//	func (r *AtReconciler) usersOf(ctx context.Context, cm *corev1.ConfigMap) []operator.Request
//
// For an update, toRequests is called with the old and with the new object. It must not modify
// them.
func Watches[R, T any, P client.Pointer[T]](toRequests func(r R, ctx context.Context, obj *T) []Request,
	predicates ...Predicate) Option {
	return WatchesKind[R, T, P](schema.GroupVersionKind{}, toRequests, predicates...)
}

// From adds a custom source of requests.
func From(source controller.Source) Option {
	return func(s *settings) {
		s.watches = append(s.watches, watch{source: func(w watching) (controller.Source, error) {
			if w.cluster.Name() != "" {
				return nil, nil // added only once, for the manager's own cluster
			}
			return source, nil
		}})
	}
}

// OnEveryReplica runs the controller on every replica, not only on the leader.
func OnEveryReplica() Option { return func(s *settings) { s.every = true } }

// Sharded divides the objects among all replicas, even with leader election. Each replica
// reconciles its share, and no object is reconciled by two replicas at a time. The replicas find
// each other by Leases in the namespace of the election (Config.Election), else of the pod, else in
// default.
func Sharded() Option { return func(s *settings) { s.every, s.sharded = true, true } }

// Filter drops events of the controller's own kind that a predicate rejects.
func Filter(predicates ...Predicate) Option {
	return func(s *settings) { s.predicates = append(s.predicates, predicates...) }
}

// FilterAll drops events that a predicate rejects: those of the controller's own kind, and those of
// Owns and Watches.
func FilterAll(predicates ...Predicate) Option {
	return func(s *settings) { s.all = append(s.all, predicates...) }
}

// MatchEveryOwner makes Owns reconcile all owners of an object that have the controller's kind, not
// only the one that is its controller.
func MatchEveryOwner() Option { return func(s *settings) { s.everyOwner = true } }

// Priority sets the priority of the requests that an event causes: higher ones are reconciled
// first. The default is 0, and -100 for objects that existed at the start and for those of Resync.
// For every 100 that its priority is lower, a request waits at most one second longer.
func Priority(priority func(Event) int) Option { return func(s *settings) { s.priority = priority } }

// Concurrency sets how many objects are reconciled at the same time; the default is 1. An object is
// never reconciled twice at the same time. With more than one worker, the next object starts while
// the status of another is being written, so up to three times as many requests may be in flight.
func Concurrency(n int) Option { return func(s *settings) { s.concurrency = n } }

// Timeout cancels the context of a Reconcile that takes longer.
func Timeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// Resync reconciles every object periodically, even without changes. Use it for state that can't be
// watched.
func Resync(every time.Duration) Option { return func(s *settings) { s.resync = every } }

// Backoff sets the delays before failed reconciles are retried. The default is
// workqueue.DefaultLimiter: 5 ms, doubled after each failure of the object up to 1000 s (16 minutes
// and 40 seconds), and at most ten retries per second of all objects of the controller after a
// burst of 100. A reconcile without an error resets the delay of its object. With a cap of a
// minute:
//
//	operator.Backoff(&workqueue.Exponential[operator.Request]{Max: time.Minute})
func Backoff(l workqueue.Limiter[Request]) Option { return func(s *settings) { s.limiter = l } }

// Named sets the name of the controller in logs, metrics and events; the default is its kind in
// lower case. Two controllers for the same kind need different names.
func Named(name string) Option { return func(s *settings) { s.name = name } }

// FinalizerName sets the finalizer of a reconciler with a method Finalize; the default is
// <group>/<name of the controller>.
func FinalizerName(name string) Option { return func(s *settings) { s.finalizer = name } }

// Kind sets the kind of a controller whose reconciler takes a Go type that does not determine it:
// *unstructured.Unstructured, or *metav1.PartialObjectMetadata, for which only the metadata of the
// objects is watched and kept.
func Kind(kind schema.GroupVersionKind) Option {
	return func(s *settings) { s.kind = kind }
}
