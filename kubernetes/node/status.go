package node

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status returns the pod's status. It starts from the status on the server, so that conditions of
// other clients are kept. ended means that no container runs or will run again.
func (l *lifecycle) status(pod *corev1.Pod, address, hostIP string, ended bool, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	status.StartTime = &metav1.Time{Time: l.startTime}
	status.HostIP = hostIP
	status.HostIPs = []corev1.HostIP{{IP: hostIP}}
	status.PodIP, status.PodIPs = address, nil
	if address != "" {
		status.PodIPs = []corev1.PodIP{{IP: address}}
	}

	status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses = nil, nil, nil
	mayRestart := l.mayRestart(pod)
	for _, r := range l.records {
		s := r.status(pod, mayRestart)
		switch r.role {
		case roleMain:
			status.ContainerStatuses = append(status.ContainerStatuses, s)
		case roleEphemeral:
			// as in a kubelet: ephemeral containers have no readiness
			s.Started, s.Ready = nil, false
			status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, s)
		default:
			status.InitContainerStatuses = append(status.InitContainerStatuses, s)
		}
	}

	gone := ended && (l.deleted || pod.DeletionTimestamp != nil)
	if !terminal(pod) {
		status.Phase = l.phase(pod, gone)
	}
	if l.failure != nil {
		status.Reason, status.Message = l.failure.reason, l.failure.message
		if l.failure.reason == evicted {
			setPodCondition(&status, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				ObservedGeneration: pod.Generation,
				Reason:             corev1.PodReasonTerminationByKubelet, Message: l.failure.message}, now)
		}
	}
	l.conditions(pod, &status, address != "" && !ended, now)
	return status
}

// phase implements the definition of pod phases. gone means that a deletion has ended all
// containers.
func (l *lifecycle) phase(pod *corev1.Pod, gone bool) corev1.PodPhase {
	if l.failure != nil {
		return corev1.PodFailed
	}
	running, succeeded, total := false, 0, 0
	for _, r := range l.records {
		exit := r.lastExit()
		switch r.role {
		case roleInit:
			if exit != nil && exit.ExitCode != 0 && r.state.Running == nil && !restarts(pod, r, exit.ExitCode) {
				return corev1.PodFailed
			}
			if r.state.Terminated == nil || exit.ExitCode != 0 {
				return pendingUnless(gone)
			}
		case roleSidecar:
			if !everRan(r) {
				return pendingUnless(gone)
			}
		case roleMain:
			total++
			switch {
			case r.state.Running != nil:
				running = true
			case exit == nil:
				return pendingUnless(gone)
			case exit.ExitCode == 0:
				succeeded++
			}
		}
	}
	switch {
	case running:
		return corev1.PodRunning
	case !gone && !l.completed(pod):
		return corev1.PodRunning // it will be restarted
	case succeeded == total:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// pendingUnless returns the phase of a pod that has not started. If gone is true, it will never
// start.
func pendingUnless(gone bool) corev1.PodPhase {
	if gone {
		return corev1.PodFailed
	}
	return corev1.PodPending
}

// mayRestart reports whether containers that end may be started again.
func (l *lifecycle) mayRestart(pod *corev1.Pod) bool {
	return l.failure == nil && !l.deleted && pod.DeletionTimestamp == nil && !terminal(pod) && !l.completed(pod)
}

// status returns the container's status. mayRestart is the result of
// lifecycle.mayRestart.
func (r *record) status(pod *corev1.Pod, mayRestart bool) corev1.ContainerStatus {
	state, last := r.state, r.last
	if exit := r.state.Terminated; exit != nil && mayRestart && restarts(pod, r, exit.ExitCode) {
		// The container will be restarted: it is waiting, and the ended attempt is its last state.
		last = corev1.ContainerState{Terminated: exit}
		waiting := &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: r.backoffMessage(pod)}
		if r.startFailed {
			waiting.Reason, waiting.Message = "RunContainerError", exit.Message
		}
		state = corev1.ContainerState{Waiting: waiting}
	}
	started := r.hasStarted()
	s := corev1.ContainerStatus{
		Name: r.spec.Name, Image: r.spec.Image, ImageID: r.spec.Image, ContainerID: r.id, RestartCount: r.restarts,
		State: *state.DeepCopy(), LastTerminationState: *last.DeepCopy(),
		Started: &started, Ready: r.isReady(),
	}
	if r.role == roleInit {
		s.Ready = r.state.Terminated != nil && r.state.Terminated.ExitCode == 0
	}
	if r.id == "" {
		s.ImageID = ""
	}
	if r.state.Running != nil && (r.resources.Requests != nil || r.resources.Limits != nil) {
		s.Resources, s.AllocatedResources = r.resources.DeepCopy(), r.spec.Resources.Requests.DeepCopy()
	}
	return s
}

// backoffMessage returns the kubelet's message for a container in back-off.
func (r *record) backoffMessage(pod *corev1.Pod) string {
	delay := r.backoff.delay
	if exit := r.lastExit(); exit != nil && r.backoff.forgotten(exit.FinishedAt.Time) {
		delay = backoffFirst
	}
	return fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, r.spec.Name, fullName(pod))
}

// fullName returns a pod's name in the form of a kubelet's messages.
func fullName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// conditions sets the five pod conditions that an agent maintains.
func (l *lifecycle) conditions(pod *corev1.Pod, status *corev1.PodStatus, sandbox bool, now time.Time) {
	set := func(kind corev1.PodConditionType, ok bool, reason, message string) {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation}
		if !ok {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		} else if reason == "PodCompleted" {
			c.Reason = reason
		}
		setPodCondition(status, c, now)
	}
	set(corev1.PodScheduled, true, "", "")
	set(corev1.PodReadyToStartContainers, sandbox, "", "")

	var uninitialized, unready []string
	for _, r := range l.records {
		switch r.role {
		case roleInit:
			if r.state.Terminated == nil || r.state.Terminated.ExitCode != 0 {
				uninitialized = append(uninitialized, r.spec.Name)
			}
		case roleSidecar:
			if !everRan(r) {
				uninitialized = append(uninitialized, r.spec.Name)
			}
			if !r.isReady() {
				unready = append(unready, r.spec.Name)
			}
		case roleMain:
			if !r.isReady() {
				unready = append(unready, r.spec.Name)
			}
		}
	}
	if status.Phase == corev1.PodSucceeded {
		set(corev1.PodInitialized, true, "PodCompleted", "")
	} else {
		set(corev1.PodInitialized, len(uninitialized) == 0, "ContainersNotInitialized",
			fmt.Sprintf("containers with incomplete status: %s", uninitialized))
	}

	ready := len(unready) == 0
	reason, message := "ContainersNotReady", fmt.Sprintf("containers with unready status: %s", unready)
	switch status.Phase {
	case corev1.PodSucceeded:
		ready, reason, message = false, "PodCompleted", ""
	case corev1.PodFailed:
		ready, reason, message = false, "PodFailed", ""
	}
	set(corev1.ContainersReady, ready, reason, message)
	for _, gate := range pod.Spec.ReadinessGates {
		if ready && !conditionTrue(status, gate.ConditionType) {
			ready, reason = false, "ReadinessGatesNotReady"
			message = fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but False", gate.ConditionType)
		}
	}
	set(corev1.PodReady, ready, reason, message)
	l.resizeConditions(pod, status, now)
}

// setPodCondition sets a condition in a status. The transition time changes only if the condition's
// status does.
func setPodCondition(status *corev1.PodStatus, c corev1.PodCondition, now time.Time) {
	c.LastTransitionTime = metaTime(now)
	for i := range status.Conditions {
		if old := &status.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			c.LastProbeTime = old.LastProbeTime
			*old = c
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}

func conditionTrue(status *corev1.PodStatus, kind corev1.PodConditionType) bool {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t) }
