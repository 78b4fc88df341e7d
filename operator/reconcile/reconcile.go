// Package reconcile defines reconcilers: functions that take the name of an object and bring the
// actual state to the desired one.
package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Request names the object to reconcile. It is the key of a controller's queue.
type Request struct {
	types.NamespacedName
	// Cluster is the manager's name of the object's cluster; empty for the manager's own.
	Cluster string
}

// String returns namespace and name as Kubernetes formats them, after the cluster's name if there
// is one.
func (r Request) String() string {
	if r.Cluster == "" {
		return r.NamespacedName.String()
	}
	return r.Cluster + ":" + r.NamespacedName.String()
}

// Result defines what happens after Reconcile returned no error.
type Result struct {
	// RequeueAfter, if not zero, reconciles again after that time, unless something else causes it
	// earlier. If it is negative, as for a time that has passed, that is after a millisecond.
	RequeueAfter time.Duration
}

// Reconciler brings the actual state to the one that an object describes. It is level-triggered: it
// acts on the current state, not on events. The controller retries errors with backoff, unless they
// are Terminal; it does not log conflicts as errors.
type Reconciler interface {
	Reconcile(ctx context.Context, req Request) (Result, error)
}

// Yielding is a Reconciler that ends with its own write, like those returned by For. It calls
// yield when only that write remains; a controller with several workers then starts another object.
// It calls yield at most once, before ReconcileYielding returns and in the same goroutine.
type Yielding interface {
	Reconciler
	ReconcileYielding(ctx context.Context, req Request, yield func()) (Result, error)
}

// Func adapts a function to a Reconciler.
type Func func(ctx context.Context, req Request) (Result, error)

// Reconcile calls f.
func (f Func) Reconcile(ctx context.Context, req Request) (Result, error) { return f(ctx, req) }
