package controller

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/boundedmap"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

// scopedQueue drops requests for objects outside of a scope. A handler may map an object to one in
// another namespace, and an owned kind may be watched in more namespaces than its owner. The
// informers do not have such an object, so a reconcile would read it from the server and write it:
// it would add a finalizer that nothing removes, or compete with the operator of that namespace.
type scopedQueue struct {
	workQueue
	scope informer.Scope
	log   *slog.Logger

	mu     sync.Mutex
	logged boundedmap.Map[outside, bool]
}

// outside is a reason to log a dropped request: one for each watched kind and namespace.
type outside struct{ event, kind, namespace string }

// maxLogged is how many reasons are remembered.
const maxLogged = 100

// inScope returns the queue itself if the scope is everything.
func inScope(q workQueue, cfg *Config) workQueue {
	if len(cfg.Scope.Namespaces) == 0 && cfg.Scope.Fields == nil {
		return q
	}
	return &scopedQueue{workQueue: q, scope: cfg.Scope, log: cfg.Log,
		logged: boundedmap.New[outside, bool](maxLogged, nil)}
}

func (q *scopedQueue) Add(r reconcile.Request, causes trace.Causes) {
	if q.has(r, causes) {
		q.workQueue.Add(r, causes)
	}
}

func (q *scopedQueue) AddAfter(r reconcile.Request, causes trace.Causes, d time.Duration) {
	if q.has(r, causes) {
		q.workQueue.AddAfter(r, causes, d)
	}
}

func (q *scopedQueue) AddRateLimited(r reconcile.Request, causes trace.Causes) {
	if q.has(r, causes) {
		q.workQueue.AddRateLimited(r, causes)
	}
}

func (q *scopedQueue) AddWith(r reconcile.Request, causes trace.Causes, opts workqueue.Options) {
	if q.has(r, causes) {
		q.workQueue.AddWith(r, causes, opts)
	}
}

// has reports whether the scope covers the object of a request, and logs the first request of each
// kind of cause that it does not cover.
func (q *scopedQueue) has(r reconcile.Request, causes trace.Causes) bool {
	if q.scope.Covers(r.NamespacedName) {
		return true
	}
	why := outside{namespace: r.Namespace}
	attrs := []any{"namespace", r.Namespace, "name", r.Name}
	if all := causes.All(); len(all) > 0 {
		why.event, why.kind = all[0].Event, all[0].Kind
		attrs = append(attrs, "event", all[0].Event, "watched",
			strings.TrimSpace(all[0].Kind+" "+strings.TrimPrefix(all[0].Key.String(), "/")))
	}
	q.mu.Lock()
	_, known := q.logged.Get(why)
	q.logged.Set(why, true)
	q.mu.Unlock()
	if !known {
		q.log.Warn("a watch names an object outside of the controller's scope; such requests are dropped", attrs...)
	}
	return false
}
