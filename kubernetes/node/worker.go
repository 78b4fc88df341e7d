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

// worker runs one pod: it carries out the plans of the state machine and reports the pod's status
// to the server, from when the agent first sees the pod until the object is deleted. It works when
// the pod changes, when a container ends, and at planned times. In between, it has no goroutine,
// because a cluster can have 100,000 simulated pods.
type worker struct {
	agent *Agent
	key   client.Key      // of the pod
	ctx   context.Context // ends with the work
	// abandon ends the work without another write to the server. ended is closed when it has ended.
	abandon context.CancelFunc
	ended   chan struct{}

	turn    sync.Mutex
	working bool        // a goroutine works, or the work has ended
	again   bool        // it must plan again before it ends
	timer   *time.Timer // calls replan at the planned time; nil: there is none

	mu     sync.Mutex
	newest *corev1.Pod // from the mirror
	gone   bool        // the object is deleted
	// Changed only by the goroutine that works, with mu held.
	lifecycle *lifecycle
	sandbox   Sandbox

	// Used only by the goroutine that works.
	pod *corev1.Pod // newest, or the response to the last write if that is newer
	// the pod was terminal before the agent started: its status isn't written
	wasTerminal bool
	finish      func()         // ends the work
	restored    bool           // the containers in the pod's status were adopted
	released    bool           // the deletion of the pod was completed
	creation    retries        // for creating the sandbox
	writes      retries        // for writes to the server
	background  sync.WaitGroup // goroutines that end with ctx
	volumes     volumes
}

func newWorker(a *Agent, pod *corev1.Pod) *worker {
	w := &worker{agent: a, key: client.KeyOf(pod), newest: pod, pod: pod, lifecycle: newLifecycle(pod), wasTerminal: terminal(pod),
		ended: make(chan struct{})}
	w.lifecycle.startTime = time.Now()
	if t := pod.Status.StartTime; t != nil {
		w.lifecycle.startTime = t.Time
	}
	return w
}

// log makes a logger for each use, because most workers never need one.
func (w *worker) log() *slog.Logger { return w.agent.log.With("pod", w.key.String()) }

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// replan makes the worker plan again, in another goroutine.
func (w *worker) replan() {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.working {
		w.again = true
		return
	}
	w.working = true
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	go w.work()
}

// update passes a newer pod to the worker.
func (w *worker) update(pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	w.newest, w.gone = pod, w.gone || gone
	w.mu.Unlock()
	w.replan()
}

// begin begins the work on the pod, which ends when the pod is deleted or ctx ends. It calls done
// when the pod's containers have ended too.
func (w *worker) begin(ctx context.Context, done func()) {
	w.ctx, w.abandon = context.WithCancel(ctx)
	detach := context.AfterFunc(w.ctx, w.replan)
	w.finish = func() {
		detach()
		w.abandon()
		w.background.Wait()
		done()
	}
	w.replan()
}

// work does what is due, until there is nothing more to do now.
func (w *worker) work() {
	for w.ctx.Err() == nil {
		at, finished := w.step(w.ctx)
		if finished {
			if w.sandbox != nil {
				if err := w.sandbox.Remove(); err != nil {
					w.log().Warn("remove sandbox", "error", err)
				}
			}
			w.finish()
			return
		}
		if w.rest(at) {
			return
		}
	}
	for _, r := range w.lifecycle.records {
		if r.state.Running != nil {
			<-r.container.Done() // the runtime ends the container when ctx ends
		}
	}
	w.finish()
}

// rest ends the work until replan is called, at the given time at the latest; zero means never. It
// returns false if there is more to do.
func (w *worker) rest(until time.Time) bool {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.again || w.ctx.Err() != nil {
		w.again = false
		return false
	}
	if !until.IsZero() {
		w.timer = time.AfterFunc(time.Until(until), w.replan)
	}
	w.working = false
	return true
}

// step does all work that is due. at is the time at which it must be called again even if nothing
// happens; zero means never.
func (w *worker) step(ctx context.Context) (at time.Time, finished bool) {
	w.observe()
	w.resize()
	if !w.lifecycle.deleted && w.sandbox == nil && w.creation.due(time.Now()) {
		w.makeSandbox(ctx)
	}
	w.collect()

	failed := w.lifecycle.failure
	measureAt := w.measureVolumes()

	w.mu.Lock()
	now := time.Now()
	p := w.lifecycle.next(w.pod, now)
	w.mu.Unlock()
	if f := w.lifecycle.failure; f != failed {
		kind := corev1.EventTypeNormal
		if f.reason == evicted {
			kind = corev1.EventTypeWarning
		}
		w.agent.events.pod(w.pod, kind, f.reason, f.message)
	}
	if p.ended && w.lifecycle.deleted {
		return time.Time{}, true
	}
	p.wakeAt(measureAt)
	w.stop(p)
	later := w.reportsLater(p)
	if !later && !w.reportStatus(ctx, p.ended) {
		return w.writes.at, false
	}
	if w.sandbox == nil && w.pod.DeletionTimestamp == nil {
		return w.creation.at, false
	}
	if p.ended && w.pod.DeletionTimestamp != nil && !w.released && !w.release(ctx) {
		return w.writes.at, false
	}
	if !p.ended && w.sandbox != nil {
		if !w.mountVolumes(ctx) {
			p.start = nil
		}
		p.wakeAt(w.volumesAt())
	}
	if later && len(p.start) == 0 && !w.reportStatus(ctx, p.ended) {
		return w.writes.at, false
	}
	for _, r := range p.start {
		if w.start(ctx, r); w.isHooking(r) {
			break // the others wait for the hook
		}
	}
	if len(p.start) > 0 {
		w.replan() // the new states decide what comes next
	}
	w.reportBackoff(time.Now())
	return p.wake, false
}

// reportsLater reports whether the first report of a pod waits until its containers have started,
// so that the server gets one report instead of two. Kubelets do the same when their writes wait:
// they report only the newest status. Containers that run take time to start, so the agent always
// reports their pods first.
func (w *worker) reportsLater(p plan) bool {
	return len(p.start) > 0 && w.sandbox != nil && w.pod.Status.StartTime == nil && w.agent.config.Backlog.busy() &&
		!w.agent.config.Runtime.Info().Executes
}

// observe sets pod to the newest pod, unless the response to a write is newer.
func (w *worker) observe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !older(w.newest, w.pod) {
		w.pod = w.newest
	}
	w.lifecycle.deleted = w.gone
	w.lifecycle.addEphemeral(w.pod)
}

// makeSandbox creates the sandbox, and adopts the containers of an earlier agent.
func (w *worker) makeSandbox(ctx context.Context) {
	sandbox, err := w.agent.config.Runtime.Sandbox(ctx, w.pod)
	if err != nil {
		w.creation.failed(time.Now(), backoffFirst, backoffMost)
		w.agent.events.pod(w.pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		return
	}
	w.creation.succeeded()
	w.mu.Lock()
	w.sandbox = sandbox
	w.mu.Unlock()
	if w.restored {
		return
	}
	w.restored = true
	for _, list := range [][]corev1.ContainerStatus{w.pod.Status.InitContainerStatuses, w.pod.Status.ContainerStatuses, w.pod.Status.EphemeralContainerStatuses} {
		for _, status := range list {
			if r := w.lifecycle.find(status.Name); r != nil && status.ContainerID != "" {
				spec := ContainerSpec{Pod: w.pod, Container: r.spec, Attempt: status.RestartCount,
					Command: r.spec.Command, Args: r.spec.Args}
				container := sandbox.Adopt(ctx, spec, status)
				w.mu.Lock()
				r.adopted(container, status)
				w.mu.Unlock()
				w.watchContainer(ctx, container)
			}
		}
	}
}

// watchContainer wakes the worker when a container ends.
func (w *worker) watchContainer(ctx context.Context, c Container) {
	if n, ok := c.(EndNotifier); ok {
		n.AfterEnd(w.replan)
		return
	}
	go func() {
		select {
		case <-c.Done():
			w.replan()
		case <-ctx.Done():
		}
	}()
}

// collect records which containers have ended.
func (w *worker) collect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.lifecycle.records {
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

// stop asks the planned containers to end.
func (w *worker) stop(p plan) {
	for _, r := range p.stop {
		if !r.stopping {
			w.mu.Lock()
			r.stopping = true
			w.mu.Unlock()
			w.agent.events.container(w.pod, r, corev1.EventTypeNormal, "Killing", fmt.Sprintf("Stopping container %s", r.spec.Name))
		}
		w.stopContainer(r, p.grace)
	}
}

// start starts the next attempt of a container.
func (w *worker) start(ctx context.Context, r *record) {
	event := func(kind, reason, message string) {
		w.agent.events.container(w.pod, r, kind, reason, message)
	}
	var links []corev1.EnvVar
	var err error
	executes := w.agent.config.Runtime.Info().Executes
	if executes {
		links, err = w.agent.serviceLinks(ctx, w.pod)
	}
	var env []corev1.EnvVar
	if err == nil {
		env, err = environment(ctx, w.agent, w.pod, r.spec, w.agent.config.Capacity, links)
	}
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
		SubPaths: subPaths(r.spec, env),
		Files:    func() ([]File, error) { return accountFiles(ctx, w.agent, w.pod, r.spec) },
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
	w.lifecycle.resizeError = "" // the container runs with the new resources
	if executes {
		r.hooking = r.spec.Lifecycle != nil && r.spec.Lifecycle.PostStart != nil
		r.unstarted, r.unready = r.spec.StartupProbe != nil, r.spec.ReadinessProbe != nil
	}
	w.mu.Unlock()
	w.watchContainer(ctx, container)
	event(corev1.EventTypeNormal, "Created", "Container created")
	event(corev1.EventTypeNormal, "Started", "Container started")
	if executes {
		w.startHookAndProbes(r, container)
	}
}

func (w *worker) isHooking(r *record) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.hooking
}

// reportBackoff records an event for each container that has started to wait for its next attempt.
func (w *worker) reportBackoff(now time.Time) {
	if !w.lifecycle.mayRestart(w.pod) {
		return
	}
	for _, r := range w.lifecycle.records {
		exit := r.state.Terminated
		if exit == nil || r.backoffReported || !restarts(w.pod, r, exit.ExitCode) || !r.backoff.until(exit.FinishedAt.Time).After(now) {
			continue
		}
		r.backoffReported = true
		w.agent.events.container(w.pod, r, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", r.spec.Name, fullName(w.pod)))
	}
}

// reportStatus writes the pod's status to the server if it has changed. It returns false if the
// write must be retried.
func (w *worker) reportStatus(ctx context.Context, ended bool) bool {
	if w.wasTerminal || w.lifecycle.deleted || w.released {
		return true
	}
	if !w.writes.due(time.Now()) {
		return false
	}
	address := w.pod.Status.PodIP
	if w.sandbox != nil {
		address = w.sandbox.IP()
	}
	status := w.lifecycle.status(w.pod, address, w.agent.config.Address, ended, time.Now())
	defer w.agent.config.Backlog.begin()()
	answer, err := writeStatus(ctx, w.agent.client, w.pod, status)
	return w.written(err, func() { w.pod = answer })
}

// release completes the deletion of the pod on the server. It returns false if that must be
// retried.
func (w *worker) release(ctx context.Context) bool {
	return w.written(w.agent.deletePod(ctx, w.pod), func() { w.released = true })
}

// written handles the result of a write. It calls done on success. It returns false if the write
// must be retried; if the pod was deleted or replaced, a retry is pointless.
func (w *worker) written(err error, done func()) bool {
	switch {
	case err == nil:
		w.writes.succeeded()
		done()
		return true
	case errors.Is(err, errPodGone):
		w.writes.succeeded()
		return true // the mirror will report the deletion
	}
	w.writes.failed(time.Now(), time.Second, time.Minute)
	w.log().Warn("write to API server", "error", err, "retry", w.writes.delay)
	return false
}

// retries computes the times of retries, with exponential back-off.
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
