package builtin

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"kelson.dev/internal/jsondecode"
)

// storedPodFields returns the selectable fields of a stored pod without decoding all of it: each
// agent watches the pods of its node by a field, so the server needs the fields of every revision
// of every pod. ok is false if the pod lacks a value that has a default or that upstream derives
// from another one.
func storedPodFields(stored []byte) (set fields.Set, ok bool) {
	var p struct {
		Spec struct {
			NodeName           string             `json:"nodeName"`
			RestartPolicy      core.RestartPolicy `json:"restartPolicy"`
			SchedulerName      string             `json:"schedulerName"`
			ServiceAccountName string             `json:"serviceAccountName"`
			HostNetwork        bool               `json:"hostNetwork"`
		} `json:"spec"`
		Status struct {
			Phase             core.PodPhase `json:"phase"`
			NominatedNodeName string        `json:"nominatedNodeName"`
			PodIP             string        `json:"podIP"`
			PodIPs            []struct {
				IP string `json:"ip"`
			} `json:"podIPs"`
		} `json:"status"`
	}
	if err := jsondecode.Decode(stored, &p, nil, nil); err != nil {
		return nil, false
	}
	var ips []core.PodIP
	if len(p.Status.PodIPs) > 0 {
		ips = []core.PodIP{{IP: p.Status.PodIPs[0].IP}}
	}
	if p.Spec.RestartPolicy == "" || p.Spec.SchedulerName == "" || p.Spec.ServiceAccountName == "" ||
		p.Status.Phase == "" || len(ips) == 0 && p.Status.PodIP != "" || len(ips) > 0 && ips[0].IP != p.Status.PodIP {
		return nil, false
	}
	return pod.ToSelectableFields(&core.Pod{
		Spec: core.PodSpec{
			NodeName: p.Spec.NodeName, RestartPolicy: p.Spec.RestartPolicy, SchedulerName: p.Spec.SchedulerName,
			ServiceAccountName: p.Spec.ServiceAccountName, HostNetwork: p.Spec.HostNetwork,
		},
		Status: core.PodStatus{Phase: p.Status.Phase, NominatedNodeName: p.Status.NominatedNodeName, PodIPs: ips},
	}), true
}
