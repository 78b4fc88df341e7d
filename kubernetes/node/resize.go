package node

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// resize changes the resources of running containers to those of the pod's spec, which clients
// change through the subresource resize. It restarts containers whose resizePolicy demands it.
// Admission has already refused requests that exceed the node's capacity.
func (w *worker) resize() {
	var events []func()
	w.mu.Lock()
	for _, r := range w.lifecycle.records {
		wanted := containerOf(w.pod, r)
		if wanted == nil || equality.Semantic.DeepEqual(wanted.Resources, r.spec.Resources) {
			continue
		}
		changed := *r.spec
		changed.Resources = *wanted.Resources.DeepCopy()
		restart := needsRestart(r.spec, wanted)
		r.spec, w.lifecycle.resizeError = &changed, ""
		switch {
		case r.state.Running == nil:
		case restart:
			r.restarting = true
		default:
			events = append(events, w.resizeContainer(r))
		}
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
			w.lifecycle.resizeError = fmt.Sprintf("resize container %s: %v", r.spec.Name, err)
			return record(corev1.EventTypeWarning, "ResizeError",
				fmt.Sprintf("Error resizing container %s: %v", r.spec.Name, err))
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
			(differs(from.Resources.Limits, to.Resources.Limits, p.ResourceName) ||
				differs(from.Resources.Requests, to.Resources.Requests, p.ResourceName))
	})
}

func differs(from, to corev1.ResourceList, name corev1.ResourceName) bool {
	before, after := from[name], to[name]
	return before.Cmp(after) != 0
}

// resizeConditions sets the condition of a failed resize, and removes it otherwise.
func (l *lifecycle) resizeConditions(pod *corev1.Pod, status *corev1.PodStatus, now time.Time) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizeInProgress && l.resizeError == ""
	})
	if l.resizeError != "" {
		setPodCondition(status, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonError, Message: l.resizeError,
			ObservedGeneration: pod.Generation}, now)
	}
}
