package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// statusPatch returns a strategic merge patch from the pod's status to another, or nil if they are
// equal. The patch contains the pod's uid, so that it fails for another pod of the same name.
func statusPatch(pod *corev1.Pod, status corev1.PodStatus) ([]byte, error) {
	var changed any
	if fields, ok := statusChanges(&pod.Status, &status); ok {
		if len(fields) == 0 {
			return nil, nil
		}
		changed = fields
	} else {
		computed, err := computedChanges(pod.Status, status)
		if err != nil || computed == nil {
			return nil, err
		}
		changed = computed
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": changed})
}

// computedChanges returns the status in a strategic merge patch between any two statuses, or nil if
// they are equal. It compares them as JSON, which takes several times as long as statusChanges.
func computedChanges(from, to corev1.PodStatus) (any, error) {
	before, err := json.Marshal(corev1.Pod{Status: from})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Pod{Status: to})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("diff status: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, err
	}
	return fields["status"], nil
}

// statusChanges returns the same as computedChanges for the changes that an agent makes. ok is
// false if there are others: of fields that agents do not set, removed conditions, and other
// addresses. Times differ only if their seconds do, as in JSON.
func statusChanges(from, to *corev1.PodStatus) (fields map[string]any, ok bool) {
	if !reflect.DeepEqual(withoutAgentFields(*from), withoutAgentFields(*to)) {
		return nil, false
	}
	c := statusDiff{fields: map[string]any{}}
	member(&c, "observedGeneration", from.ObservedGeneration, to.ObservedGeneration)
	member(&c, "phase", string(from.Phase), string(to.Phase))
	member(&c, "message", from.Message, to.Message)
	member(&c, "reason", from.Reason, to.Reason)
	member(&c, "hostIP", from.HostIP, to.HostIP)
	member(&c, "podIP", from.PodIP, to.PodIP)
	c.time("startTime", from.StartTime, to.StartTime)
	added(&c, "hostIPs", from.HostIPs, to.HostIPs)
	added(&c, "podIPs", from.PodIPs, to.PodIPs)
	c.containers("initContainerStatuses", from.InitContainerStatuses, to.InitContainerStatuses)
	c.containers("containerStatuses", from.ContainerStatuses, to.ContainerStatuses)
	c.containers("ephemeralContainerStatuses", from.EphemeralContainerStatuses, to.EphemeralContainerStatuses)
	c.conditions(from.Conditions, to.Conditions)
	return c.fields, !c.failed
}

// withoutAgentFields returns a status without the fields that statusChanges compares.
func withoutAgentFields(s corev1.PodStatus) corev1.PodStatus {
	s.ObservedGeneration, s.Phase, s.Message, s.Reason, s.HostIP, s.PodIP, s.StartTime = 0, "", "", "", "", "", nil
	s.HostIPs, s.PodIPs, s.Conditions = nil, nil, nil
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = nil, nil, nil
	return s
}

// statusDiff collects the changed members of an object. A removed member is nil. failed is set if
// only computedChanges can express a change.
type statusDiff struct {
	fields map[string]any
	failed bool
}

// member compares a member that JSON omits if it has the zero value.
func member[T comparable](c *statusDiff, name string, from, to T) {
	var zero T
	switch {
	case from == to:
	case to == zero:
		c.fields[name] = nil
	default:
		c.fields[name] = to
	}
}

func (c *statusDiff) time(name string, from, to *metav1.Time) {
	switch {
	case from.IsZero() && to.IsZero():
		c.failed = c.failed || (from == nil) != (to == nil)
	case to.IsZero():
		c.failed = true
	case from.IsZero() || from.Unix() != to.Unix():
		c.fields[name] = to
	}
}

// added compares lists that the patch merges. Only the first value of a list is supported.
func added[T comparable](c *statusDiff, name string, from, to []T) {
	switch {
	case slices.Equal(from, to):
	case len(from) == 0:
		c.fields[name] = to
	default:
		c.failed = true
	}
}

// containers compares lists that the patch replaces.
func (c *statusDiff) containers(name string, from, to []corev1.ContainerStatus) {
	switch {
	case len(from) == 0 && len(to) == 0 || reflect.DeepEqual(from, to):
		return
	case len(to) == 0:
		c.fields[name] = nil
		return
	}
	after, err := json.Marshal(to)
	if err != nil {
		c.failed = true
		return
	}
	if len(from) > 0 {
		before, err := json.Marshal(from)
		if err != nil || bytes.Equal(before, after) {
			c.failed = c.failed || err != nil
			return
		}
	}
	c.fields[name] = json.RawMessage(after)
}

// conditions compares the conditions, which the patch merges by their types. The patch also has the
// order of all types, unless there were no conditions.
func (c *statusDiff) conditions(from, to []corev1.PodCondition) {
	if len(from) == 0 {
		if len(to) > 0 {
			c.fields["conditions"] = to
		}
		return
	}
	var changes []any
	order, reordered, found := make([]any, len(to)), len(from) != len(to), 0
	for i := range to {
		next := &to[i]
		of := func(c corev1.PodCondition) bool { return c.Type == next.Type }
		order[i] = map[string]any{"type": next.Type}
		reordered = reordered || from[i].Type != next.Type
		if slices.IndexFunc(to, of) != i { // the type is not unique
			c.failed = true
			return
		}
		at := slices.IndexFunc(from, of)
		if at < 0 {
			changes = append(changes, next)
			continue
		}
		found++
		if change := c.condition(&from[at], next); len(change) > 0 {
			change["type"] = next.Type
			changes = append(changes, change)
		}
	}
	if found != len(from) { // some were removed
		c.failed = true
		return
	}
	if len(changes) > 0 {
		c.fields["conditions"] = changes
	}
	if len(changes) > 0 || reordered {
		c.fields["$setElementOrder/conditions"] = order
	}
}

// condition returns the changed members of a condition.
func (c *statusDiff) condition(from, to *corev1.PodCondition) map[string]any {
	d := statusDiff{fields: map[string]any{}}
	member(&d, "observedGeneration", from.ObservedGeneration, to.ObservedGeneration)
	member(&d, "status", string(from.Status), string(to.Status))
	member(&d, "reason", from.Reason, to.Reason)
	member(&d, "message", from.Message, to.Message)
	d.time("lastProbeTime", &from.LastProbeTime, &to.LastProbeTime)
	d.time("lastTransitionTime", &from.LastTransitionTime, &to.LastTransitionTime)
	c.failed = c.failed || d.failed || to.Status == ""
	return d.fields
}
