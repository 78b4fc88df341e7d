package adapter

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// tracing records the reconciles of controller-runtime's controllers.
//
// The causes of a reconcile are the events whose handlers queued its request. Handlers and queues
// of controller-runtime do not pass the event to the call that adds a request, but all run in the
// goroutine that delivers the event: deliver records the event under the goroutine's number, and
// the queue looks it up.
type tracing struct {
	tracer *trace.Tracer // may be nil
	log    *slog.Logger
	file   io.Closer // may be nil

	current sync.Map // goroutine number → *delivery

	mu          sync.Mutex
	controllers []*traced
}

// delivery is an event that is being delivered.
type delivery struct {
	kind  string
	event controller.Event
	cause trace.Cause
}

// deliver calls a handler of an event.
func (t *tracing) deliver(kind string, e controller.Event, call func()) {
	if t.tracer == nil {
		call()
		return
	}
	id := goroutine()
	t.current.Store(id, &delivery{kind: kind, event: e, cause: controller.Cause(t.tracer, kind, e)})
	defer t.current.Delete(id)
	call()
}

// traced is one controller.
type traced struct {
	*tracing
	name     string
	upstream crreconcile.TypedReconciler[crreconcile.Request]
	handed   *handover // may be nil

	mu     sync.Mutex
	kind   string // of the reconciled objects; "" until it is known
	causes map[crreconcile.Request]trace.Causes
	// ready maps the requests in the queue to the times at which they are or were ready. running
	// contains those that the queue has returned, until they are done. Both are empty if the trace
	// has no details.
	ready   map[crreconcile.Request]time.Time
	running map[crreconcile.Request]*running
	// retrying contains the requests that are done and whose delay is not known yet.
	retrying map[crreconcile.Request]*running
}

// running is a request that the queue has returned, until it is done.
type running struct {
	queue trace.Queue
	// end completes the record of the reconcile. It is nil until the reconcile has returned, and if
	// the request is not traced.
	end  func()
	span *trace.Span
	// retries means that the request will be added again after a delay that is not known yet.
	retries bool
}

// attach traces a controller for reconcile.Request. controller.New returns a type of an internal
// package; its exported fields Name, Do and NewQueue are what attach needs. It leaves runnables
// without these fields alone.
func (t *tracing) attach(r crmanager.Runnable, handed *handover) {
	v := reflect.ValueOf(r)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct ||
		!strings.HasPrefix(v.Elem().Type().PkgPath(), "sigs.k8s.io/controller-runtime/") {
		return
	}
	name, isNamed := fieldOf[string](v, "Name")
	do, does := fieldOf[crreconcile.TypedReconciler[crreconcile.Request]](v, "Do")
	newQueue, queues := fieldOf[func(string, workqueue.TypedRateLimiter[crreconcile.Request]) workqueue.TypedRateLimitingInterface[crreconcile.Request]](v, "NewQueue")
	if !isNamed || !does || !queues {
		return
	}
	if elected, ok := r.(crmanager.LeaderElectionRunnable); ok && !elected.NeedLeaderElection() {
		handed = nil
	}
	c := &traced{tracing: t, name: *name, upstream: *do, handed: handed, causes: map[crreconcile.Request]trace.Causes{},
		ready: map[crreconcile.Request]time.Time{}, running: map[crreconcile.Request]*running{},
		retrying: map[crreconcile.Request]*running{}}
	t.mu.Lock()
	t.controllers = append(t.controllers, c)
	t.mu.Unlock()
	*do = c
	inner := *newQueue
	*newQueue = func(name string, limiter workqueue.TypedRateLimiter[crreconcile.Request]) workqueue.TypedRateLimitingInterface[crreconcile.Request] {
		q := inner(name, &tracedLimiter{limiter, c})
		if priorities, ok := q.(priorityqueue.PriorityQueue[crreconcile.Request]); ok {
			return &tracedPriorityQueue{tracedQueue{q, c}, priorities}
		}
		return &tracedQueue{q, c}
	}
}

// fieldOf returns the address of a field of the struct that v points to, if it has that type.
func fieldOf[T any](v reflect.Value, name string) (*T, bool) {
	f := v.Elem().FieldByName(name)
	if !f.IsValid() || !f.CanSet() || f.Type() != reflect.TypeFor[T]() {
		return nil, false
	}
	return f.Addr().Interface().(*T), true
}

// Reconcile calls the controller's reconciler and records the result.
func (c *traced) Reconcile(ctx context.Context, req crreconcile.Request) (crreconcile.Result, error) {
	if err := c.handed.wait(ctx); err != nil {
		return crreconcile.Result{}, err
	}
	c.mu.Lock()
	causes, kind := c.causes[req], c.kind
	delete(c.causes, req)
	c.mu.Unlock()
	ctx, span := c.tracer.Start(ctx, trace.Record{
		Controller: c.name, Kind: kind, Request: reconcile.Request{NamespacedName: req.NamespacedName}, Causes: causes,
	})
	if q, ok := c.queueOf(req); ok {
		span.Queued(q)
	}
	ctx = withLogs(ctx, span)
	var result crreconcile.Result
	err := errPanicked // unless the reconciler returns
	began := time.Now()
	defer func() {
		took := time.Since(began)
		c.returned(req, span, func() { span.EndAfter(took, reconcile.Result{RequeueAfter: result.RequeueAfter}, err) })
	}()
	result, err = c.upstream.Reconcile(ctx, req)
	return result, err
}

var errPanicked = errors.New("reconciler panicked")

// note records why requests are queued: the event that this goroutine delivers, or else other.
func (c *traced) note(other string, reqs ...crreconcile.Request) {
	if c.tracer == nil {
		return
	}
	cause := trace.Cause{Event: other}
	var from *delivery
	if d, ok := c.current.Load(goroutine()); ok {
		from = d.(*delivery)
		cause = from.cause
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, req := range reqs {
		c.causes[req] = c.causes[req].Merge(trace.Because(cause))
		if from != nil {
			c.learnKind(from, req)
		}
	}
}

// learnKind determines which kind a controller reconciles: events of that kind queue the name of
// their own object. If there are several, it is the kind after which the controller is named. The
// caller holds the lock.
func (c *traced) learnKind(d *delivery, req crreconcile.Request) {
	obj := d.event.Object
	if c.kind == d.kind || obj == nil || obj.GetName() != req.Name || obj.GetNamespace() != req.Namespace {
		return
	}
	if c.kind == "" || strings.EqualFold(d.kind, c.name) {
		c.kind = d.kind
	}
}
