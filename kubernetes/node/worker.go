package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/operator/client"
)

// worker drives one pod: it does what the machine plans and tells the server. One goroutine runs it, from when the agent first
// sees the pod until the object is gone; it is woken by a newer pod, by a container that ends, and by time.
type worker struct {
	agent *Agent
	log   *slog.Logger
	wake  chan struct{} // of capacity 1

	mu     sync.Mutex
	newest *corev1.Pod // from the informer
	gone   bool        // the object is deleted
	// Changed by the worker's goroutine only, with mu held.
	life    *life
	sandbox Sandbox

	// Of the worker's goroutine alone.
	pod      *corev1.Pod // newest, or what the last write answered if that is newer
	settled  bool        // the pod had ended before the agent came: its status is left alone
	restored bool        // what the pod's status tells of its containers was taken over
	released bool        // the server was told that the deleted pod may go
	making   retries     // of the sandbox
	telling  retries     // of writes to the server
}

func newWorker(a *Agent, pod *corev1.Pod) *worker {
	w := &worker{agent: a, newest: pod, pod: pod, life: newLife(pod), settled: terminal(pod),
		wake: make(chan struct{}, 1), log: a.log.With("pod", client.KeyOf(pod).String())}
	w.life.startTime = time.Now()
	if t := pod.Status.StartTime; t != nil {
		w.life.startTime = t.Time
	}
	return w
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// poke makes the worker plan again.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// update hands the worker a newer pod.
func (w *worker) update(pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	w.newest, w.gone = pod, w.gone || gone
	w.mu.Unlock()
	w.poke()
}

// run drives the pod until it is gone, or ctx ends; it returns when its containers have ended.
func (w *worker) run(ctx context.Context) {
	for {
		at, finished := w.step(ctx)
		if finished {
			if w.sandbox != nil {
				if err := w.sandbox.Remove(); err != nil {
					w.log.Warn("remove sandbox", "error", err)
				}
			}
			return
		}
		if !w.sleep(ctx, at) {
			break
		}
	}
	for _, r := range w.life.records {
		if r.state.Running != nil {
			<-r.container.Done() // the runtime sees to that when ctx ends
		}
	}
}

// sleep waits for something to do; false when ctx ended.
func (w *worker) sleep(ctx context.Context, until time.Time) bool {
	var timer <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.wake:
	case <-timer:
	}
	return ctx.Err() == nil
}

// step does what is to be done now. at is when to step again if nothing happens; zero: not before something does.
func (w *worker) step(ctx context.Context) (at time.Time, finished bool) {
	w.observe()
	if !w.life.deleted && w.sandbox == nil && w.making.due(time.Now()) {
		w.makeSandbox(ctx)
	}
	w.collect()

	w.mu.Lock()
	now := time.Now()
	failed := w.life.failure
	p := w.life.next(w.pod, now)
	w.mu.Unlock()
	if f := w.life.failure; f != failed {
		w.agent.events.pod(w.pod, corev1.EventTypeNormal, f.reason, f.message)
	}
	if p.ended && w.life.deleted {
		return time.Time{}, true
	}
	w.stop(p)
	if !w.tell(ctx, p.ended) {
		return w.telling.at, false
	}
	if w.sandbox == nil && w.pod.DeletionTimestamp == nil {
		return w.making.at, false
	}
	if p.ended && w.pod.DeletionTimestamp != nil && !w.released && !w.release(ctx) {
		return w.telling.at, false
	}
	for _, r := range p.start {
		w.start(ctx, r)
	}
	if len(p.start) > 0 {
		w.poke() // what they are now decides what is next
	}
	w.tellBackoff(time.Now())
	return p.wake, false
}

// observe takes the newest pod, unless the answer to a write is newer.
func (w *worker) observe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !older(w.newest, w.pod) {
		w.pod = w.newest
	}
	w.life.deleted = w.gone
	w.life.join(w.pod)
}

// makeSandbox makes the place for the containers, and finds those of an earlier agent.
func (w *worker) makeSandbox(ctx context.Context) {
	sandbox, err := w.agent.config.Runtime.Sandbox(ctx, w.pod)
	if err != nil {
		w.making.failed(time.Now(), backoffFirst, backoffMost)
		w.agent.events.pod(w.pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		return
	}
	w.making.succeeded()
	w.mu.Lock()
	w.sandbox = sandbox
	w.mu.Unlock()
	if w.restored {
		return
	}
	w.restored = true
	for _, list := range [][]corev1.ContainerStatus{w.pod.Status.InitContainerStatuses, w.pod.Status.ContainerStatuses, w.pod.Status.EphemeralContainerStatuses} {
		for _, status := range list {
			if r := w.life.find(status.Name); r != nil && status.ContainerID != "" {
				spec := ContainerSpec{Pod: w.pod, Container: r.spec, Attempt: status.RestartCount,
					Command: r.spec.Command, Args: r.spec.Args}
				container := sandbox.Adopt(ctx, spec, status)
				w.mu.Lock()
				r.adopted(container, status)
				w.mu.Unlock()
				w.follow(ctx, container)
			}
		}
	}
}

// follow wakes the worker when a container ends.
func (w *worker) follow(ctx context.Context, c Container) {
	go func() {
		select {
		case <-c.Done():
			w.poke()
		case <-ctx.Done():
		}
	}()
}

// collect notes which containers have ended.
func (w *worker) collect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.life.records {
		if r.state.Running == nil {
			continue
		}
		select {
		case <-r.container.Done():
			r.exited(r.container.Exit())
		default:
		}
	}
}

// stop asks containers to end.
func (w *worker) stop(p plan) {
	for _, r := range p.stop {
		if !r.stopping {
			w.mu.Lock()
			r.stopping = true
			w.mu.Unlock()
			w.agent.events.container(w.pod, r, corev1.EventTypeNormal, "Killing", fmt.Sprintf("Stopping container %s", r.spec.Name))
		}
		r.container.Stop(p.grace)
	}
}

// start starts the next attempt of a container.
func (w *worker) start(ctx context.Context, r *record) {
	event := func(kind, reason, message string) {
		w.agent.events.container(w.pod, r, kind, reason, message)
	}
	env, err := environment(ctx, w.agent, w.pod, r.spec, w.agent.config.Capacity)
	if err != nil {
		event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %v", err))
		w.mu.Lock()
		defer w.mu.Unlock()
		r.misconfigured(err.Error(), time.Now())
		return
	}
	container, err := w.sandbox.Start(ctx, ContainerSpec{
		Pod: w.pod, Container: r.spec, Attempt: r.attempt(), Env: env,
		Command: expandAll(r.spec.Command, env), Args: expandAll(r.spec.Args, env), Event: event,
		Files: func() ([]File, error) { return accountFiles(ctx, w.agent, w.pod, r.spec) },
	})
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %v", err))
		w.mu.Lock()
		defer w.mu.Unlock()
		r.failedToStart(err.Error(), time.Now())
		return
	}
	w.mu.Lock()
	r.started(container, time.Now())
	w.mu.Unlock()
	w.follow(ctx, container)
	event(corev1.EventTypeNormal, "Created", "Container created")
	event(corev1.EventTypeNormal, "Started", "Container started")
}

// tellBackoff reports containers that have begun to wait for their next attempt.
func (w *worker) tellBackoff(now time.Time) {
	if !w.life.goesOn(w.pod) {
		return
	}
	for _, r := range w.life.records {
		exit := r.state.Terminated
		if exit == nil || r.backoffTold || !restarts(w.pod, r, exit.ExitCode) || !r.backoff.until(exit.FinishedAt.Time).After(now) {
			continue
		}
		r.backoffTold = true
		w.agent.events.container(w.pod, r, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", r.spec.Name, fullName(w.pod)))
	}
}

// tell writes the pod's status to the server if it has changed; false when that must be tried again.
func (w *worker) tell(ctx context.Context, ended bool) bool {
	if w.settled || w.life.deleted || w.released {
		return true
	}
	if !w.telling.due(time.Now()) {
		return false
	}
	address := w.pod.Status.PodIP
	if w.sandbox != nil {
		address = w.sandbox.IP()
	}
	status := w.life.status(w.pod, address, w.agent.config.Address, ended, time.Now())
	answer, err := writeStatus(ctx, w.agent.client, w.pod, status)
	return w.told(err, func() { w.pod = answer })
}

// release tells the server that the deleted pod may go; false when that must be tried again.
func (w *worker) release(ctx context.Context) bool {
	return w.told(w.agent.deletePod(ctx, w.pod), func() { w.released = true })
}

// told settles a write: done, pointless because the pod is gone or replaced, or to be tried again.
func (w *worker) told(err error, done func()) bool {
	switch {
	case err == nil:
		w.telling.succeeded()
		done()
		return true
	case errors.Is(err, errPodGone):
		w.telling.succeeded()
		return true // the informer will say so
	}
	w.telling.failed(time.Now(), time.Second, time.Minute)
	w.log.Warn("tell the server", "error", err, "retry", w.telling.delay)
	return false
}

// retries spaces attempts at something that fails.
type retries struct {
	delay time.Duration
	at    time.Time
}

func (r *retries) due(now time.Time) bool { return !now.Before(r.at) }

func (r *retries) failed(now time.Time, first, most time.Duration) {
	r.delay = min(max(first, 2*r.delay), most)
	r.at = now.Add(r.delay)
}

func (r *retries) succeeded() { *r = retries{} }
