package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// This file is the state machine of a pod's lifecycle. It is pure: it decides from the pod, the
// state of its containers and the time what to do next. The worker does it and reports the results
// to the state machine. Nothing here blocks, locks or does I/O.
//	           ┌── init containers, one after another ──┐┌─────── containers, in parallel ───────┐
//	waiting ──▶ running ──▶ terminated ─(exit 0)─▶ next … running ──▶ terminated ──▶ pod's phase
//	   ▲                        │                                        │
//	   └──── back-off ──────────┴──────────── restart policy ────────────┘
//
// A sidecar (an init container with restartPolicy Always) needs only to run for the next container
// to start. It is always restarted, and is stopped when the main containers have ended. Ephemeral
// containers start once, as soon as they are added, and do not affect the others.

// role is the type of a container in its pod.
type role int

const (
	roleInit role = iota
	roleSidecar
	roleMain
	roleEphemeral
)

// record is the state of one container of a pod.
type record struct {
	spec *corev1.Container
	role role

	// state and last correspond to State and LastTerminationState in the container's status.
	state, last corev1.ContainerState
	id          string
	restarts    int32
	backoff     backoff
	// config is the delay after a container could not be created because of a missing reference,
	// such as a config map.
	config retries
	// startFailed is set if the last attempt never ran. Its error message is then shown instead of
	// CrashLoopBackOff.
	startFailed bool

	// container and previous are the runtime's containers of the current and the previous attempt,
	// or nil.
	container, previous Container
	stopping            bool
	// hooking is set while the postStart hook runs, and unstarted until the startup probe succeeds.
	// unready is the result of the readiness probe.
	hooking, unstarted, unready bool
	stopHook                    *stopHook // runs, or has run, before the current attempt's end
	backoffReported             bool      // an event for the current back-off was recorded
	// resources are the resources with which the container runs. restarting is set while it is
	// restarted because of new ones.
	resources  corev1.ResourceRequirements
	restarting bool
}

// lifecycle is the state of a pod's state machine.
type lifecycle struct {
	records []*record // init containers and sidecars in spec order, then the others
	// startTime is when the agent accepted the pod.
	startTime time.Time
	// failure, once set, ends the pod with phase Failed, regardless of its containers
	// (DeadlineExceeded, Evicted).
	failure *failure
	// resizeError is the error of the last change of a container's resources; "" if it succeeded.
	resizeError string
	// deleted is set when the object no longer exists on the server.
	deleted bool
}

type failure struct{ reason, message string }

// plan lists what the worker must do next.
type plan struct {
	start []*record
	// stop lists the running containers to stop within grace.
	stop  []*record
	grace time.Duration
	// wake is when to plan again even without an event; zero means never.
	wake time.Time
	// ended is set when no container runs or will run again.
	ended bool
}

// newLifecycle returns the state machine of a pod that has not started.
func newLifecycle(pod *corev1.Pod) *lifecycle {
	l := &lifecycle{}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	if len(pod.Spec.InitContainers) > 0 {
		waiting.Waiting.Reason = "PodInitializing"
	}
	add := func(spec *corev1.Container, r role) {
		l.records = append(l.records, &record{spec: spec, role: r, state: *waiting.DeepCopy()})
	}
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(spec, roleSidecar)
		} else {
			add(spec, roleInit)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], roleMain)
	}
	return l
}

// addEphemeral adds the ephemeral containers that are new in the pod.
func (l *lifecycle) addEphemeral(pod *corev1.Pod) {
	for i := range pod.Spec.EphemeralContainers {
		e := &pod.Spec.EphemeralContainers[i]
		if l.find(e.Name) == nil {
			spec := corev1.Container(e.EphemeralContainerCommon)
			l.records = append(l.records, &record{spec: &spec, role: roleEphemeral,
				state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
		}
	}
}

// next returns the plan for now. It sets failure when the pod's deadline has passed.
func (l *lifecycle) next(pod *corev1.Pod, now time.Time) plan {
	var p plan
	if l.deleted || pod.DeletionTimestamp != nil {
		return l.stopAll(deletionGrace(pod, l.deleted))
	}
	if terminal(pod) { // a terminal phase is final, whichever client set it
		return l.stopAll(grace(pod))
	}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil && l.failure == nil && !l.completed(pod) {
		deadline := l.startTime.Add(time.Duration(*seconds) * time.Second)
		if now.Before(deadline) {
			p.wakeAt(deadline)
		} else {
			l.failure = &failure{"DeadlineExceeded", "Pod was active on the node longer than the specified deadline"}
		}
	}
	if l.failure != nil && l.failure.reason == evicted {
		return l.stopAll(time.Second) // as in a kubelet: immediately
	}
	if l.failure != nil || l.completed(pod) {
		return l.stopAll(grace(pod))
	}
	for _, r := range l.records {
		if r.restarting && r.state.Running != nil {
			p.stop, p.grace = append(p.stop, r), grace(pod)
		}
	}
	for _, r := range l.records { // independent of the other containers
		if r.role == roleEphemeral && r.state.Running == nil {
			if at, ok := l.startAt(pod, r); ok && !at.After(now) {
				p.start = append(p.start, r)
			} else if ok {
				p.wakeAt(at)
			}
		}
	}
	for _, r := range l.records {
		if r.role == roleInit && r.state.Terminated != nil && r.state.Terminated.ExitCode == 0 {
			continue
		}
		if r.role != roleEphemeral && r.state.Running == nil {
			if at, ok := l.startAt(pod, r); ok && !at.After(now) {
				p.start = append(p.start, r)
			} else if ok {
				p.wakeAt(at)
			}
			if r.role == roleSidecar && everRan(r) {
				continue // a sidecar that crashes does not block the others
			}
		}
		if r.role == roleInit || r.role == roleSidecar && !r.hasStarted() || r.hooking {
			return p // the others wait for this container
		}
	}
	return p
}

// startAt returns the time at which a container that is not running may start. ok is false if it
// may never start again.
func (l *lifecycle) startAt(pod *corev1.Pod, r *record) (time.Time, bool) {
	switch {
	case !r.config.at.IsZero():
		return r.config.at, true
	case r.lastExit() == nil, r.restarting:
		return time.Time{}, true
	case !restarts(pod, r, r.lastExit().ExitCode):
		return time.Time{}, false
	}
	return r.backoff.until(r.lastExit().FinishedAt.Time), true
}

// find returns the record of a container, or nil.
func (l *lifecycle) find(name string) *record {
	for _, r := range l.records {
		if r.spec.Name == name {
			return r
		}
	}
	return nil
}

// lastExit returns how the newest terminated attempt ended, or nil if there is none.
func (r *record) lastExit() *corev1.ContainerStateTerminated {
	if r.state.Terminated != nil {
		return r.state.Terminated
	}
	return r.last.Terminated
}

// hasStarted reports whether the container runs, and its postStart hook and startup probe have
// succeeded.
func (r *record) hasStarted() bool {
	return r.state.Running != nil && !r.hooking && !r.unstarted
}

// isReady reports whether the container counts as ready.
func (r *record) isReady() bool { return r.hasStarted() && !r.unready && !r.stopping }

func everRan(r *record) bool { return r.state.Running != nil || r.lastExit() != nil }

// restarts reports whether a container that ended with an exit code is restarted.
func restarts(pod *corev1.Pod, r *record, code int32) bool {
	if r.role == roleEphemeral {
		return false
	}
	policy := pod.Spec.RestartPolicy
	if r.role == roleInit && policy == corev1.RestartPolicyAlways {
		policy = corev1.RestartPolicyOnFailure
	}
	if r.spec.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*r.spec.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

// completed reports whether the pod has finished, successfully or not: an init container has failed
// and is not restarted, or all main containers have ended and are not restarted. Sidecars may still
// run.
func (l *lifecycle) completed(pod *corev1.Pod) bool {
	for _, r := range l.records {
		ended := r.state.Terminated != nil && !r.restarting && !restarts(pod, r, r.state.Terminated.ExitCode)
		switch {
		case r.role == roleInit && ended && r.state.Terminated.ExitCode != 0:
			return true
		case r.role == roleMain && !ended:
			return false
		}
	}
	return true
}

// stopAll returns a plan that stops all running containers: first all but the sidecars, then the
// sidecars one by one in reverse order.
func (l *lifecycle) stopAll(grace time.Duration) plan {
	p := plan{grace: grace, ended: true}
	for _, r := range l.records {
		if r.state.Running != nil && r.role != roleSidecar {
			p.stop = append(p.stop, r)
		}
	}
	for i := len(l.records) - 1; i >= 0 && len(p.stop) == 0; i-- {
		if r := l.records[i]; r.state.Running != nil {
			p.stop = append(p.stop, r)
		}
	}
	p.ended = len(p.stop) == 0
	return p
}

// grace returns the pod's termination grace period.
func grace(pod *corev1.Pod) time.Duration {
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// deletionGrace returns the grace period of a deletion. As in a kubelet, it is at least a second,
// even if the object no longer exists.
func deletionGrace(pod *corev1.Pod, gone bool) time.Duration {
	if gone {
		return time.Second
	}
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		return max(time.Duration(*seconds)*time.Second, time.Second)
	}
	return grace(pod)
}

// wakeAt sets wake to a time, unless wake is earlier; the zero time has no effect.
func (p *plan) wakeAt(at time.Time) {
	if at.IsZero() {
		return
	}
	if p.wake.IsZero() || at.Before(p.wake) {
		p.wake = at
	}
}

// started records that an attempt has started.
func (r *record) started(c Container, now time.Time) {
	r.retire(now)
	r.container, r.id = c, c.ID()
	r.startFailed, r.stopping, r.stopHook = false, false, nil
	r.resources, r.restarting = r.spec.Resources, false
	r.hooking, r.unstarted, r.unready = false, false, false
	r.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metaTime(c.StartedAt())}}
}

// failedToStart records an attempt that failed to start. Source: the exit status that containerd
// reports then.
func (r *record) failedToStart(message string, now time.Time) {
	r.retire(now)
	r.container, r.id = nil, ""
	r.startFailed = true
	r.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError",
		Message: message, StartedAt: metaTime(now), FinishedAt: metaTime(now)}}
}

// retire makes the newest attempt the previous one, before another begins.
func (r *record) retire(now time.Time) {
	r.config.succeeded()
	r.backoffReported = false
	exit := r.lastExit()
	if exit == nil {
		return
	}
	r.backoff.next(exit.FinishedAt.Time, now)
	r.restarts++
	r.last = corev1.ContainerState{Terminated: exit}
	r.previous = r.container
}

// attempt returns the number of the next attempt.
func (r *record) attempt() int32 {
	if r.lastExit() == nil {
		return 0
	}
	return r.restarts + 1
}

// misconfigured records that a container could not be created because of the pod's references.
func (r *record) misconfigured(message string, now time.Time) {
	if exit := r.state.Terminated; exit != nil {
		r.last = corev1.ContainerState{Terminated: exit}
	}
	r.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError",
		Message: message}}
	r.config.failed(now, backoffFirst, backoffMost)
}

// adopted restores the state that an earlier agent reported. The back-off is unknown and starts
// again.
func (r *record) adopted(c Container, status corev1.ContainerStatus) {
	r.container, r.id, r.restarts = c, status.ContainerID, status.RestartCount
	r.resources = r.spec.Resources
	r.state, r.last = *status.State.DeepCopy(), *status.LastTerminationState.DeepCopy()
	// status shows a container that will be restarted like this
	if r.state.Waiting != nil && r.last.Terminated != nil {
		r.state, r.last = r.last, corev1.ContainerState{}
	}
}

// exited records that the running attempt ended.
func (r *record) exited(exit Exit) {
	reason := exit.Reason
	switch {
	case reason != "":
	case exit.Code == 0:
		reason = "Completed"
	default:
		reason = "Error"
	}
	terminated := &corev1.ContainerStateTerminated{ExitCode: exit.Code, Signal: exit.Signal, Reason: reason,
		Message:    exit.Message,
		FinishedAt: metaTime(exit.FinishedAt), ContainerID: r.id}
	if r.state.Running != nil {
		terminated.StartedAt = r.state.Running.StartedAt
	}
	r.state = corev1.ContainerState{Terminated: terminated}
	r.hooking = false
}

// The back-off of a crash loop. Source: "Container restart policy" in the documentation of the pod
// lifecycle.
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 5 * time.Minute
	backoffReset = 10 * time.Minute
)

// backoff is the restart delay of a container that keeps ending: the first restart is immediate,
// the second happens 10 seconds after the end, and each further delay is twice as long, up to 5
// minutes. Running for ten minutes resets it.
type backoff struct {
	delay   time.Duration
	started time.Time // of the newest restart
}

// until returns when a container that ended may start again.
func (b *backoff) until(finished time.Time) time.Time {
	if b.forgotten(finished) {
		return finished
	}
	return finished.Add(b.delay)
}

// next records a restart.
func (b *backoff) next(finished, now time.Time) {
	if b.forgotten(finished) {
		b.delay = backoffFirst
	} else {
		b.delay = min(2*b.delay, backoffMost)
	}
	b.started = now
}

func (b *backoff) forgotten(finished time.Time) bool {
	return b.delay == 0 || finished.Sub(b.started) > backoffReset
}
