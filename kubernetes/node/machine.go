package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A pod's life, as the machine sees it. It is pure: it looks at the pod, at what is known of the containers and at the time, and
// says what to do next; worker does it and tells the machine what came of it. Nothing here waits, locks or talks to anyone.
//
//	           ┌── init containers, one after another ──┐┌─────── containers, all at once ───────┐
//	waiting ──▶ running ──▶ terminated ─(exit 0)─▶ next … running ──▶ terminated ──▶ pod's phase
//	   ▲                        │                                        │
//	   └──── back-off ──────────┴──────────── restart policy ────────────┘
//
// A sidecar (an init container with restartPolicy Always) only has to run for the next one to start, is always restarted, and is
// stopped when the containers are done. Ephemeral containers start as soon as they are there, once, and change nothing for the others.

// role is a container's place in its pod.
type role int

const (
	roleInit role = iota
	roleSidecar
	roleMain
	roleEphemeral
)

// record is what is known of one container of a pod.
type record struct {
	spec *corev1.Container
	role role

	// state and last are as in the container's status.
	state, last corev1.ContainerState
	id          string
	restarts    int32
	backoff     backoff
	// config spaces attempts after the container could not even be made (a missing config map).
	config retries
	// startFailed says that the last attempt never ran: its message is worth more to the user than CrashLoopBackOff.
	startFailed bool

	// container and previous are this and the last attempt at the runtime; nil where there is none.
	container, previous Container
	stopping            bool
	backoffTold         bool // there was an event of this back-off
}

// life is a pod's machine.
type life struct {
	records []*record // init containers and sidecars in their order, then the others
	// startTime is when the agent took the pod.
	startTime time.Time
	// failure, once set, ends the pod with phase Failed, whatever its containers do (DeadlineExceeded).
	failure *failure
	// deleted says that the object is gone from the server.
	deleted bool
}

type failure struct{ reason, message string }

// plan is what to do next.
type plan struct {
	start []*record
	// stop says that running containers are to end within grace: all, or only the sidecars in that list.
	stop  []*record
	grace time.Duration
	// wake is when to plan again if nothing happens sooner; zero: no need.
	wake time.Time
	// ended says that nothing runs and nothing will.
	ended bool
}

// newLife returns the machine of a pod that has not begun.
func newLife(pod *corev1.Pod) *life {
	l := &life{}
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

// join takes in ephemeral containers that the pod got since.
func (l *life) join(pod *corev1.Pod) {
	for i := range pod.Spec.EphemeralContainers {
		e := &pod.Spec.EphemeralContainers[i]
		if l.find(e.Name) == nil {
			spec := corev1.Container(e.EphemeralContainerCommon)
			l.records = append(l.records, &record{spec: &spec, role: roleEphemeral,
				state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
		}
	}
}

// next plans. It sets the failure of a pod whose deadline has passed.
func (l *life) next(pod *corev1.Pod, now time.Time) plan {
	var p plan
	if l.deleted || pod.DeletionTimestamp != nil {
		return l.stopAll(deletionGrace(pod, l.deleted))
	}
	if terminal(pod) { // whoever said so: there is no way back from it
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
	if l.failure != nil || l.completed(pod) {
		return l.stopAll(grace(pod))
	}
	for _, r := range l.records { // whatever the others wait for
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
				continue // a sidecar that crashes does not hold up the rest
			}
		}
		if r.role == roleInit || r.role == roleSidecar && r.state.Running == nil {
			return p // the rest waits for this one
		}
	}
	return p
}

// startAt is when a container that does not run may start; false when it never may again.
func (l *life) startAt(pod *corev1.Pod, r *record) (time.Time, bool) {
	switch {
	case !r.config.at.IsZero():
		return r.config.at, true
	case r.lastExit() == nil:
		return time.Time{}, true
	case !restarts(pod, r, r.lastExit().ExitCode):
		return time.Time{}, false
	}
	return r.backoff.until(r.lastExit().FinishedAt.Time), true
}

// find is the record of a container; nil when the pod has none of that name.
func (l *life) find(name string) *record {
	for _, r := range l.records {
		if r.spec.Name == name {
			return r
		}
	}
	return nil
}

// lastExit is how the newest ended attempt ended; nil when there is none.
func (r *record) lastExit() *corev1.ContainerStateTerminated {
	if r.state.Terminated != nil {
		return r.state.Terminated
	}
	return r.last.Terminated
}

func everRan(r *record) bool { return r.state.Running != nil || r.lastExit() != nil }

// restarts tells whether a container that ended with a code is started again.
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

// completed tells whether the pod has done its work, well or not: a failed init container that is not repeated, or all
// containers ended for good. Sidecars may still run.
func (l *life) completed(pod *corev1.Pod) bool {
	for _, r := range l.records {
		ended := r.state.Terminated != nil && !restarts(pod, r, r.state.Terminated.ExitCode)
		switch {
		case r.role == roleInit && ended && r.state.Terminated.ExitCode != 0:
			return true
		case r.role == roleMain && !ended:
			return false
		}
	}
	return true
}

// stopAll plans the end of everything that runs, sidecars after the others and in reverse order.
func (l *life) stopAll(grace time.Duration) plan {
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

// grace is how long a pod's containers may take to end when nobody said otherwise.
func grace(pod *corev1.Pod) time.Duration {
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// deletionGrace is what the deletion allows. A kubelet gives at least a second, even when the object is gone.
func deletionGrace(pod *corev1.Pod, gone bool) time.Duration {
	if gone {
		return time.Second
	}
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		return max(time.Duration(*seconds)*time.Second, time.Second)
	}
	return grace(pod)
}

func (p *plan) wakeAt(at time.Time) {
	if p.wake.IsZero() || at.Before(p.wake) {
		p.wake = at
	}
}

// started notes that an attempt runs.
func (r *record) started(c Container, now time.Time) {
	r.retire(now)
	r.container, r.id = c, c.ID()
	r.startFailed, r.stopping = false, false
	r.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metaTime(c.StartedAt())}}
}

// failedToStart notes an attempt that ended before it began. Source: the exit that containerd reports then.
func (r *record) failedToStart(message string, now time.Time) {
	r.retire(now)
	r.container, r.id = nil, ""
	r.startFailed = true
	r.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError",
		Message: message, StartedAt: metaTime(now), FinishedAt: metaTime(now)}}
}

// retire makes the newest attempt the previous one, because another begins.
func (r *record) retire(now time.Time) {
	r.config.succeeded()
	r.backoffTold = false
	exit := r.lastExit()
	if exit == nil {
		return
	}
	r.backoff.next(exit.FinishedAt.Time, now)
	r.restarts++
	r.last = corev1.ContainerState{Terminated: exit}
	r.previous = r.container
}

// attempt is the number of the attempt that comes next.
func (r *record) attempt() int32 {
	if r.lastExit() == nil {
		return 0
	}
	return r.restarts + 1
}

// misconfigured notes an attempt that could not be made because of what the pod refers to.
func (r *record) misconfigured(message string, now time.Time) {
	if exit := r.state.Terminated; exit != nil {
		r.last = corev1.ContainerState{Terminated: exit}
	}
	r.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: message}}
	r.config.failed(now, backoffFirst, backoffMost)
}

// adopted takes over what an earlier agent knew. Its back-off is not known any more and begins anew.
func (r *record) adopted(c Container, status corev1.ContainerStatus) {
	r.container, r.id, r.restarts = c, status.ContainerID, status.RestartCount
	r.state, r.last = *status.State.DeepCopy(), *status.LastTerminationState.DeepCopy()
	if r.state.Waiting != nil && r.last.Terminated != nil { // as status shows a container that is to be started again
		r.state, r.last = r.last, corev1.ContainerState{}
	}
}

// exited notes that the running attempt ended.
func (r *record) exited(exit Exit) {
	reason := exit.Reason
	switch {
	case reason != "":
	case exit.Code == 0:
		reason = "Completed"
	default:
		reason = "Error"
	}
	terminated := &corev1.ContainerStateTerminated{ExitCode: exit.Code, Signal: exit.Signal, Reason: reason, Message: exit.Message,
		FinishedAt: metaTime(exit.FinishedAt), ContainerID: r.id}
	if r.state.Running != nil {
		terminated.StartedAt = r.state.Running.StartedAt
	}
	r.state = corev1.ContainerState{Terminated: terminated}
}

// The steps of a crash loop's delays. Source: "Container restart policy" in the documentation of the pod life cycle.
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 5 * time.Minute
	backoffReset = 10 * time.Minute
)

// backoff is the delay of a container that ends again and again: the first restart is at once, the second 10 seconds after the
// end, and each following one waits twice as long, up to 5 minutes. Ten minutes of running forget it.
type backoff struct {
	delay   time.Duration
	started time.Time // of the newest restart
}

// until is when a container that ended may start again.
func (b *backoff) until(finished time.Time) time.Time {
	if b.forgotten(finished) {
		return finished
	}
	return finished.Add(b.delay)
}

// next notes a restart.
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
