package node

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// resizing is a change of a pod's resources that has not succeeded yet.
type resizing struct {
	condition       corev1.PodConditionType
	reason, message string
}

// resize changes the resources of running containers to those of the pod's spec, which clients
// change through the subresource resize. It restarts containers whose resizePolicy demands it.
func (w *worker) resize() {
	var events []func()
	var pending *resizing
	w.mu.Lock()
	for _, r := range w.lifecycle.records {
		wanted := containerOf(w.pod, r)
		if wanted == nil || equality.Semantic.DeepEqual(wanted.Resources, r.spec.Resources) {
			continue
		}
		if scarce := w.beyondCapacity(wanted); scarce != "" {
			pending = &resizing{corev1.PodResizePending, corev1.PodReasonInfeasible, scarce}
			continue
		}
		changed := *r.spec
		changed.Resources = *wanted.Resources.DeepCopy()
		restart := needsRestart(r.spec, wanted)
		r.spec, w.lifecycle.resizing = &changed, nil
		switch {
		case r.state.Running == nil:
		case restart:
			r.restarting = true
		default:
			events = append(events, w.resizeContainer(r))
		}
	}
	if r := w.lifecycle.resizing; r == nil || r.condition == corev1.PodResizePending {
		w.lifecycle.resizing = pending
	}
	w.mu.Unlock()
	for _, record := range events {
		record()
	}
}

// resizeContainer changes the resources of a running container, and returns a function that records
// the event. The caller holds mu.
func (w *worker) resizeContainer(r *record) (event func()) {
	record := func(kind, reason, message string) func() {
		return func() { w.agent.events.container(w.pod, r, kind, reason, message) }
	}
	if c, ok := r.container.(Resizer); ok {
		if err := c.Resize(r.spec.Resources); err != nil {
			w.lifecycle.resizing = &resizing{corev1.PodResizeInProgress, corev1.PodReasonError, fmt.Sprintf("resize container %s: %v", r.spec.Name, err)}
			return record(corev1.EventTypeWarning, "ResizeError", fmt.Sprintf("Error resizing container %s: %v", r.spec.Name, err))
		}
	}
	r.resources = r.spec.Resources
	return record(corev1.EventTypeNormal, "ResizeCompleted", fmt.Sprintf("Container %s resized", r.spec.Name))
}

// containerOf returns the container of a record in a newer version of its pod. Ephemeral containers
// and ordinary init containers are not resized.
func containerOf(pod *corev1.Pod, r *record) *corev1.Container {
	var list []corev1.Container
	switch r.role {
	case roleMain:
		list = pod.Spec.Containers
	case roleSidecar:
		list = pod.Spec.InitContainers
	}
	if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == r.spec.Name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// needsRestart reports whether a change of the container's resources requires a restart.
func needsRestart(from, to *corev1.Container) bool {
	return slices.ContainsFunc(to.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.RestartPolicy == corev1.RestartContainer &&
			(differs(from.Resources.Limits, to.Resources.Limits, p.ResourceName) || differs(from.Resources.Requests, to.Resources.Requests, p.ResourceName))
	})
}

func differs(from, to corev1.ResourceList, name corev1.ResourceName) bool {
	before, after := from[name], to[name]
	return before.Cmp(after) != 0
}

// beyondCapacity describes a request of the container that exceeds the node's capacity; "" if none
// does.
func (w *worker) beyondCapacity(c *corev1.Container) string {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		wanted, have := c.Resources.Requests[name], w.agent.config.Capacity[name]
		if wanted.Cmp(have) > 0 {
			return fmt.Sprintf("Node didn't have enough capacity: %s, requested: %s, capacity: %s", name, wanted.String(), have.String())
		}
	}
	return ""
}

// resizeConditions sets the conditions of an unfinished resize, and removes those of a finished
// one.
func (l *lifecycle) resizeConditions(pod *corev1.Pod, status *corev1.PodStatus, now time.Time) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return (c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress) && (l.resizing == nil || l.resizing.condition != c.Type)
	})
	if r := l.resizing; r != nil {
		setPodCondition(status, corev1.PodCondition{Type: r.condition, Status: corev1.ConditionTrue, Reason: r.reason, Message: r.message, ObservedGeneration: pod.Generation}, now)
	}
}
