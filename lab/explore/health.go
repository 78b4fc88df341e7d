package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// workloads lists the kinds whose controllers replace their Pods, and report the number of ready
// Pods in their status.
var workloads = []string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"}

// pods returns how many healthy Pods each owner that the operator manages has. Pods that may end do
// not count, because only the operator can decide what their end means. pods counts instead of
// comparing names, because a replacement may have another name.
func (s State) pods() map[string]int {
	healthy := map[string]int{}
	for id, all := range s.objects {
		if resource, _, _ := strings.Cut(id, " "); resource != "pods" {
			continue
		}
		for _, pod := range all {
			spec, _ := pod["spec"].(map[string]any)
			status, _ := pod["status"].(map[string]any)
			meta, _ := pod["metadata"].(map[string]any)
			owners, _ := meta["ownerReferences"].([]any)
			if len(owners) == 0 || spec["restartPolicy"] != "Always" || meta["deletionTimestamp"] != nil ||
				status["phase"] != "Running" || !hasCondition(status, "Ready") {
				continue
			}
			owner, _ := owners[0].(map[string]any)
			if kind, _ := owner["kind"].(string); !slices.Contains(workloads, kind) {
				healthy[fmt.Sprintf("%s %v", kind, owner["name"])]++
			}
		}
	}
	return healthy
}

func hasCondition(status map[string]any, typ string) bool {
	conditions, _ := status["conditions"].([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == typ && condition["status"] == "True"
	})
}

// unhealthy returns why an object is not healthy: too few of its replicas are ready, its claim is
// not bound, or its condition Ready or Available is not True. Pods are judged together with their
// owner; see State.pods.
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

// checkHealthy raises an alarm (O7) if a managed object is unhealthy and was healthy in an earlier
// state.
func (o *oracles) checkHealthy(earlier State) bool {
	var lines []string
	now := o.history.state()
	for owner, before := range earlier.pods() {
		if after := now.pods()[owner]; after < before {
			lines = append(lines, fmt.Sprintf("pods of %s: %d are healthy, and %d were", owner, after, before))
		}
	}
	slices.Sort(lines)
	for _, id := range slices.Sorted(maps.Keys(earlier.objects)) {
		resource, _, _ := strings.Cut(id, " ")
		if slices.Contains(o.setup.scenario.Ignore, resource+" status") {
			continue
		}
		for i, before := range earlier.objects[id] {
			if i >= len(now.objects[id]) || unhealthy(id, before) != "" {
				continue
			}
			if why := unhealthy(id, now.objects[id][i]); why != "" {
				lines = append(lines, id+": "+why)
			}
		}
	}
	if len(lines) > 0 {
		o.result.alarm("O7", "no longer healthy", strings.Join(lines, "\n"))
	}
	return len(lines) == 0
}
