package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// healthy raises an alarm (O7) if a managed object is not healthy, and was so in an earlier state.
func (t *trial) healthy(earlier State) bool {
	var lines []string
	now := t.history.state()
	for _, id := range slices.Sorted(maps.Keys(earlier.objects)) {
		for i, before := range earlier.objects[id] {
			if i >= len(now.objects[id]) || unhealthy(id, before) != "" {
				continue
			}
			if why := unhealthy(id, now.objects[id][i]); why != "" {
				lines = append(lines, id+": "+why)
			}
		}
	}
	if lines = without(t.scenario.Ignore, lines); len(lines) > 0 {
		t.alarm("O7", "not healthy any more", strings.Join(lines, "\n"))
	}
	return len(lines) == 0
}

// unhealthy returns why an object is not healthy: too few of its replicas are ready, its claim is
// not bound, or its condition Ready or Available is not True. Pods are not judged, because they may
// have completed; the objects that manage them are.
func unhealthy(id string, object map[string]any) string {
	spec, _ := object["spec"].(map[string]any)
	status, _ := object["status"].(map[string]any)
	resource, _, _ := strings.Cut(id, " ")
	switch resource {
	case "pods":
		return ""
	case "deployments.apps", "replicasets.apps", "statefulsets.apps":
		want, ok := spec["replicas"].(int64)
		if !ok {
			want = 1
		}
		if ready, _ := status["readyReplicas"].(int64); ready < want {
			return fmt.Sprintf("%d of %d replicas are ready", ready, want)
		}
	case "daemonsets.apps":
		want, _ := status["desiredNumberScheduled"].(int64)
		if ready, _ := status["numberReady"].(int64); ready < want {
			return fmt.Sprintf("%d of %d pods are ready", ready, want)
		}
	case "persistentvolumeclaims":
		if phase := status["phase"]; phase != "Bound" {
			return fmt.Sprintf("its phase is %v", phase)
		}
	}
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if typ := condition["type"]; (typ == "Ready" || typ == "Available") && condition["status"] != "True" {
			return fmt.Sprintf("its condition %v is %v", typ, condition["status"])
		}
	}
	return ""
}
