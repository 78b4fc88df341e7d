// Package reconcile defines what a reconciler is: a function from the name of an object to its world being right.
package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Request names the object to reconcile. It is the key of a controller's queue.
type Request struct {
	types.NamespacedName
	// Cluster is the name under which a manager knows the object's cluster; empty for the manager's own.
	Cluster string
}

// String is the name as Kubernetes writes it, after that of the cluster if it is not the manager's own.
func (r Request) String() string {
	if r.Cluster == "" {
		return r.NamespacedName.String()
	}
	return r.Cluster + ":" + r.NamespacedName.String()
}

// Result tells what to do next when Reconcile returned no error.
type Result struct {
	// RequeueAfter, when positive, reconciles again after that time, if nothing else causes it sooner.
	RequeueAfter time.Duration
}

// Reconciler brings the world to what the object asks for. It is level-driven: it looks at the present state, never at the event.
// An error is retried with backoff, unless it is Terminal; conflicts are retried quietly.
type Reconciler interface {
	Reconcile(ctx context.Context, req Request) (Result, error)
}

// Yielding is a Reconciler that ends with a write of its own, as those made by For do. yield says that nothing but that write is left: a
// controller with several workers then has another object reconciled meanwhile. It is called at most once, before ReconcileYielding
// returns, by the goroutine that called that.
type Yielding interface {
	Reconciler
	ReconcileYielding(ctx context.Context, req Request, yield func()) (Result, error)
}

// Func is a function as a Reconciler.
type Func func(ctx context.Context, req Request) (Result, error)

// Reconcile calls f.
func (f Func) Reconcile(ctx context.Context, req Request) (Result, error) { return f(ctx, req) }
