package flowcontrol

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/util/flowcontrol/debug"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
)

// level is the state of a priority level. Its limit is divided between requests that execute
// directly and Kubernetes' queue set:
//
//	limit ─┬─ direct: seats of requests that found enough free seats and no request before them
//	       └─ the rest: the queue set's limit, while requests are queued or execute after they were queued
//
// While the queue set has requests, all other requests go through it too, and seats that direct
// requests release become part of its limit. So the queue set alone decides while requests compete.
// It costs microseconds and allocations, so only busy levels have one.
type level struct {
	name  string
	owner *Controller

	mu        sync.Mutex
	spec      *flowcontrolv1.PriorityLevelConfiguration
	bounds    bounds
	limit     int    // seats that may be taken
	direct    int    // seats taken without the queue set
	executing Ticket // the ring of the tickets that took them
	running   int    // the length of the ring
	queued    int    // requests in the queue set: waiting or executing
	queues    fq.QueueSet

	// demand integrates the number of seats that are taken or waited for. It is updated while the
	// controller adjusts limits.
	demand   fq.Integrator
	inDirect atomic.Int64 // = direct, readable without mu
	inQueues atomic.Int64 // seats that the queue set's requests take or wait for
	smoothed stats

	// distributions for metrics
	runs, waits, seats, demands *ratio
}

// bounds are the configured bounds of a level's seats.
type bounds struct{ nominal, min, max int }

func newLevel(name string, owner *Controller) *level {
	l := &level{
		name: name, owner: owner, demand: fq.NewNamedIntegrator(eventclock.Real{}, name),
		runs: newRatio(requestEdges), waits: newRatio(requestEdges), seats: newRatio(seatEdges),
		demands: newRatio(demandEdges),
	}
	l.executing.prev, l.executing.next = &l.executing, &l.executing
	return l
}

// exempt reports whether the level does not limit its requests. The caller holds mu.
func (l *level) exempt() bool {
	return l.spec == nil || l.spec.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
}

// queuing returns the configuration of the queues; nil if requests are rejected instead. The caller
// holds mu.
func (l *level) queuing() *flowcontrolv1.QueuingConfiguration {
	if l.spec.Spec.Limited == nil {
		return nil
	}
	return l.spec.Spec.Limited.LimitResponse.Queuing
}

// The reasons of rejections, as in Kubernetes' metrics.
const (
	queueFull        = "queue-full"
	concurrencyLimit = "concurrency-limit"
	timeOut          = "time-out"
)

// start blocks until the request may execute, or returns the reason of its rejection. ctx limits
// the wait.
func (l *level) start(ctx context.Context, t *Ticket) (rejected string) {
	rejected, queues, busy := l.enter(t)
	if busy {
		l.owner.beginAdjusting()
	}
	if queues != nil {
		return l.wait(ctx, t, queues, rejected)
	}
	return rejected
}

// enter lets a request execute directly, rejects it, or returns the queue set in which it must
// wait. In the last case, rejected is the reason for rejecting it if the queues are full.
func (l *level) enter(t *Ticket) (rejected string, queues fq.QueueSet, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seats, exempt := t.work.MaxSeats(), l.exempt()
	busy = !exempt && (l.queued > 0 || 2*(l.direct+seats) > l.limit)
	// A request that is wider than the whole level executes alone.
	free := l.direct+seats <= l.limit || seats > l.limit && l.direct == 0
	switch {
	case exempt, l.queued == 0 && free:
		t.started = time.Now()
		l.direct += seats
		l.running++
		t.prev, t.next = l.executing.prev, &l.executing
		t.prev.next, t.next.prev = t, t
		l.runs.add(1, t.started)
		l.seats.add(seats, t.started)
		l.observeDirect(t.started)
		return "", nil, busy
	case l.queuing() == nil:
		rejected = concurrencyLimit
	default:
		rejected = queueFull
	}
	if l.queued == 0 && l.queuing() == nil {
		return rejected, nil, busy
	}
	l.queued++
	l.configure()
	return rejected, l.queues, busy
}

// wait waits in the queues until the request may execute. If they are full, it rejects the request
// with the reason full.
func (l *level) wait(ctx context.Context, t *Ticket, queues fq.QueueSet, full string) (rejected string) {
	t.arrived = arrival(ctx)
	ctx, cancel := waitContext(ctx, t.arrived)
	defer cancel()
	req, _ := queues.StartRequest(ctx, &t.work, t.schema.hash(t.flow), t.flow, t.schema.fs.Name, t.info, t.user, nil)
	if req == nil {
		l.leave()
		return full
	}
	waiting := l.owner.kinds.waiting(t.info)
	waiting.add(1, time.Now())
	t.schema.queued.Add(1)
	t.schema.queuedSeats.Add(int64(t.work.MaxSeats()))
	granted, released, finished := make(chan bool, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		defer l.leave()
		executes := false
		req.Finish(func() {
			executes = true
			queueset.OnRequestDispatched(req)
			granted <- true
			<-released
		})
		if !executes {
			granted <- false
		}
	}()
	executes := <-granted
	waiting.add(-1, time.Now())
	t.schema.queued.Add(-1)
	t.schema.queuedSeats.Add(-int64(t.work.MaxSeats()))
	t.schema.waited(time.Since(t.arrived), executes)
	if !executes {
		return timeOut
	}
	t.released, t.finished, t.started = released, finished, time.Now()
	return ""
}

// waitContext limits the wait of a request as Kubernetes does: to a quarter of the time until its
// deadline, at most a minute. Requests without a deadline, such as watches, wait like those with
// the default deadline of a minute.
func waitContext(ctx context.Context, arrived time.Time) (context.Context, context.CancelFunc) {
	limit := defaultWait
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(deadline.Sub(arrived)/4, time.Minute)
	}
	return context.WithDeadline(ctx, arrived.Add(limit))
}

const defaultWait = 15 * time.Second

// leave decrements the number of requests in the queue set.
func (l *level) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued--
}

// finish releases the seats of a request, after the additional latency that its events cause.
func (l *level) finish(t *Ticket) {
	t.schema.executing.Add(-1)
	t.schema.executingSeats.Add(-int64(t.work.MaxSeats()))
	now := time.Now()
	l.owner.kinds.executing(t.info).add(-1, now)
	if executed := now.Sub(t.started); t.info.Verb == "watch" {
		t.schema.watched.observe(executed)
	} else {
		t.schema.executed.observe(executed)
	}
	if t.released != nil {
		close(t.released)
		// closed when the queue set has released the seats, after the additional latency
		<-t.finished
		return
	}
	if t.work.AdditionalLatency > 0 {
		l.runs.add(-1, now)
		time.AfterFunc(t.work.AdditionalLatency, func() { l.releaseDirect(t, time.Now()) })
		return
	}
	l.runs.add(-1, now)
	l.releaseDirect(t, now)
}

// releaseDirect releases the seats of a request that was never queued.
func (l *level) releaseDirect(t *Ticket, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.prev.next, t.next.prev = t.next, t.prev
	l.direct -= t.work.MaxSeats()
	l.running--
	l.seats.add(-t.work.MaxSeats(), now)
	l.observeDirect(now)
	if l.queued > 0 {
		l.configure()
	}
}

// setLimit changes the number of seats. Waiting requests get seats that become free.
func (l *level) setLimit(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measureBy(limit)
	if l.limit = limit; l.queued > 0 {
		l.configure()
	}
}

// measureBy sets the limits to which the distributions of metrics are relative.
func (l *level) measureBy(seats int) {
	now := time.Now()
	l.runs.limit(seats, now)
	l.seats.limit(seats, now)
	l.demands.limit(seats, now)
	l.waits.limit(l.capacity(), now)
}

// capacity returns the number of requests that can wait.
func (l *level) capacity() int {
	if l.exempt() || l.queuing() == nil {
		return 0
	}
	return int(l.queuing().Queues) * int(l.queuing().QueueLengthLimit)
}

// configure sets the limit of the queue set to the seats that direct requests do not hold. It
// creates the queue set if it does not exist. The caller holds mu.
func (l *level) configure() {
	cfg := fq.QueuingConfig{Name: l.name}
	if q := l.queuing(); q != nil {
		cfg.DesiredNumQueues, cfg.QueueLengthLimit, cfg.HandSize = int(q.Queues), int(q.QueueLengthLimit),
			int(q.HandSize)
	}
	var completer fq.QueueSetCompleter
	var err error
	if l.queues == nil {
		completer, err = queueset.NewQueueSetFactory(eventclock.Real{}).BeginConstruction(cfg,
			metrics.RatioedGaugePair{RequestsWaiting: queueGauge{l.waits}, RequestsExecuting: queueGauge{l.runs}},
			queueGauge{l.seats}, queueDemand{l})
	} else {
		completer, err = l.queues.BeginConfigChange(cfg)
	}
	if err != nil { // checked when the configuration was read
		return
	}
	seats := max(l.limit-l.direct, 0)
	l.queues = completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: seats, ConcurrencyDenominator: max(seats, 1)})
}

// idle reports whether the level has no request.
func (l *level) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running == 0 && l.queued == 0
}

// observeDirect records the demand of direct requests. The caller holds mu.
func (l *level) observeDirect(now time.Time) {
	l.inDirect.Store(int64(l.direct))
	l.observe(now)
}

func (l *level) observe(now time.Time) {
	demand := l.inDirect.Load() + l.inQueues.Load()
	l.demands.set(demand, now)
	if l.owner.adjusting.Load() {
		l.demand.Set(float64(demand))
	}
}

// snapshot describes the level for dumps. It adds direct requests, as requests without a queue, to
// the queue set's dump.
func (l *level) snapshot() (d debug.QueueSetDump) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues != nil {
		d = l.queues.Dump(true)
	}
	for t := l.executing.next; t != &l.executing; t = t.next {
		d.QueuelessExecutingRequests = append(d.QueuelessExecutingRequests, t.dump())
	}
	d.Executing += l.running
	d.SeatsInUse += l.direct
	return d
}

// queueDemand is the gauge to which the queue set reports its demand. The queue set holds its lock
// meanwhile.
type queueDemand struct{ *level }

func (d queueDemand) Set(x float64) {
	d.inQueues.Store(int64(x))
	d.observe(time.Now())
}
func (d queueDemand) Add(x float64)     { d.Set(float64(d.inQueues.Load()) + x) }
func (d queueDemand) Inc()              { d.Add(1) }
func (d queueDemand) Dec()              { d.Add(-1) }
func (d queueDemand) SetToCurrentTime() {}
