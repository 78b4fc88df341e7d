package adapter

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/operator/trace"
)

// tracedQueue notes the causes of requests and, for traces with details, how long they waited.
type tracedQueue struct {
	workqueue.TypedRateLimitingInterface[crreconcile.Request]
	c *traced
}

func (q *tracedQueue) Add(req crreconcile.Request) {
	q.c.note(trace.Other, req)
	q.c.queued(req, 0)
	q.TypedRateLimitingInterface.Add(req)
}

func (q *tracedQueue) AddAfter(req crreconcile.Request, d time.Duration) {
	q.c.note(trace.After, req)
	q.c.queued(req, d)
	q.TypedRateLimitingInterface.AddAfter(req, d)
}

// AddRateLimited leaves the delay to tracedLimiter.
func (q *tracedQueue) AddRateLimited(req crreconcile.Request) {
	q.c.note(trace.Retry, req)
	q.TypedRateLimitingInterface.AddRateLimited(req)
}

func (q *tracedQueue) Get() (req crreconcile.Request, shutdown bool) {
	if req, shutdown = q.TypedRateLimitingInterface.Get(); !shutdown {
		q.c.started(req, 0, q.TypedRateLimitingInterface)
	}
	return req, shutdown
}

func (q *tracedQueue) Done(req crreconcile.Request) {
	q.c.done(req)
	q.TypedRateLimitingInterface.Done(req)
}

// tracedPriorityQueue is tracedQueue for controller-runtime's own queue.
type tracedPriorityQueue struct {
	tracedQueue
	priorities priorityqueue.PriorityQueue[crreconcile.Request] // the same queue
}

func (q *tracedPriorityQueue) GetWithPriority() (req crreconcile.Request, priority int, shutdown bool) {
	if req, priority, shutdown = q.priorities.GetWithPriority(); !shutdown {
		q.c.started(req, priority, q.priorities)
	}
	return req, priority, shutdown
}

func (q *tracedPriorityQueue) AddWithOpts(o priorityqueue.AddOpts, reqs ...crreconcile.Request) {
	switch {
	case o.RateLimited:
		q.c.note(trace.Retry, reqs...)
		q.c.retry(reqs)
	case o.After > 0:
		q.c.note(trace.After, reqs...)
	default:
		q.c.note(trace.Other, reqs...)
	}
	if !o.RateLimited || o.After > 0 {
		for _, req := range reqs {
			q.c.queued(req, o.After)
		}
	}
	q.priorities.AddWithOpts(o, reqs...)
}

// tracedLimiter notes the delays of requests that are retried.
type tracedLimiter struct {
	workqueue.TypedRateLimiter[crreconcile.Request]
	c *traced
}

func (l *tracedLimiter) When(req crreconcile.Request) time.Duration {
	d := l.TypedRateLimiter.When(req)
	l.c.retried(req, d)
	l.c.queued(req, d)
	return d
}

// queued notes that a request becomes ready after a time, unless it becomes ready earlier.
func (c *traced) queued(req crreconcile.Request, after time.Duration) {
	if !c.tracer.Details() {
		return
	}
	at := time.Now().Add(max(0, after))
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.ready[req]; !ok || at.Before(before) {
		c.ready[req] = at
	}
}

// started notes the state of the queue when it has returned a request.
func (c *traced) started(req crreconcile.Request, priority int,
	q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
	if !c.tracer.Details() {
		return
	}
	now := time.Now()
	state := trace.Queue{Priority: priority, Retries: q.NumRequeues(req), Ready: q.Len()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.ready[req]; ok {
		state.Waited = max(0, now.Sub(at))
		delete(c.ready, req)
	}
	state.Delayed = max(0, len(c.ready)-state.Ready)
	state.Running = len(c.running) + 1
	c.running[req] = &running{queue: state}
}

// queueOf returns the state of the queue when it returned a request; false if the request does not
// come from the queue.
func (c *traced) queueOf(req crreconcile.Request) (trace.Queue, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.running[req]
	if !ok {
		return trace.Queue{}, false
	}
	return r.queue, true
}

// returned notes that a reconcile has returned. The controller decides after the reconcile whether
// and when it retries, so the record of a request from the queue ends only when the request is
// done. The record of another request ends immediately.
func (c *traced) returned(req crreconcile.Request, span *trace.Span, end func()) {
	c.mu.Lock()
	r, ok := c.running[req]
	if ok {
		r.span, r.end = span, end
	}
	c.mu.Unlock()
	if !ok {
		end()
	}
}

// retry notes that requests will be added again. The priority queue asks the rate limiter for
// the delay later, in its own goroutine, so the request may be done before the delay is known.
func (c *traced) retry(reqs []crreconcile.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, req := range reqs {
		if r, ok := c.running[req]; ok && r.end != nil {
			r.retries = true
		}
	}
}

// retried records the backoff of a request whose reconcile has returned. If the request is already
// done, it also ends the record.
func (c *traced) retried(req crreconcile.Request, after time.Duration) {
	c.mu.Lock()
	r, done := c.retrying[req]
	delete(c.retrying, req)
	if !done {
		if r = c.running[req]; r != nil && r.end != nil {
			r.span.Retried(after)
			r.retries = false
		}
	}
	c.mu.Unlock()
	if done {
		r.span.Retried(after)
		r.end()
	}
}

// done ends the record of a request, unless its backoff is not known yet.
func (c *traced) done(req crreconcile.Request) {
	c.mu.Lock()
	r, ok := c.running[req]
	delete(c.running, req)
	if ok && r.retries {
		c.retrying[req] = r
		ok = false
	}
	c.mu.Unlock()
	if ok && r.end != nil {
		r.end()
	}
}

// ended ends the records of requests that will not be added again, because the queue has shut down.
func (c *traced) ended() {
	c.mu.Lock()
	left := c.retrying
	c.retrying = map[crreconcile.Request]*running{}
	c.mu.Unlock()
	for _, r := range left {
		r.end()
	}
}
