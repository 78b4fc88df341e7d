package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/lab/history"
)

// entry is an entry of managedFields.
type entry struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation"`
	Subresource string `json:"subresource"`
	APIVersion  string `json:"apiVersion"`
	Time        string `json:"time"`
	Fields      any    `json:"fieldsV1"`
}

// finalizers reports whether the entry has finalizers.
func (e entry) finalizers() bool {
	fields, _ := e.Fields.(map[string]any)
	meta, _ := fields["f:metadata"].(map[string]any)
	return meta["f:finalizers"] != nil
}

// isCollectors reports whether the garbage collector removes a finalizer.
func isCollectors(finalizer string) bool {
	return finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents
}

// head has the metadata of an object that the replay needs.
type head struct {
	Metadata struct {
		UID               string   `json:"uid"`
		DeletionTimestamp string   `json:"deletionTimestamp"`
		Finalizers        []string `json:"finalizers"`
		ManagedFields     []entry  `json:"managedFields"`
	} `json:"metadata"`
}

func headOf(data []byte) (h head, err error) {
	if data == nil {
		return h, nil
	}
	err = json.Unmarshal(data, &h)
	return h, err
}

// writers returns the managers whose entries in managedFields differ between two versions. An entry
// that has only lost owner references does not count: the garbage collector has removed them.
func writers(before, after head) (found []string) {
	for _, e := range after.Metadata.ManagedFields {
		existed := slices.ContainsFunc(before.Metadata.ManagedFields, func(b entry) bool {
			owners, rest := e.split()
			ownersBefore, restBefore := b.split()
			return rest == restBefore && within(owners, ownersBefore)
		})
		if !existed && !slices.Contains(found, e.Manager) {
			found = append(found, e.Manager)
		}
	}
	return found
}

// split returns the fields of owner references, and the rest of the entry in JSON.
func (e entry) split() (owners any, rest string) {
	fields, _ := e.Fields.(map[string]any)
	meta, _ := fields["f:metadata"].(map[string]any)
	if owners = meta["f:ownerReferences"]; owners != nil {
		fields, meta = maps.Clone(fields), maps.Clone(meta)
		delete(meta, "f:ownerReferences")
		if fields["f:metadata"] = meta; len(meta) == 0 {
			delete(fields, "f:metadata")
		}
		e.Fields = fields
	}
	data, _ := json.Marshal(e) // encoding decoded JSON does not fail
	return owners, string(data)
}

// within reports whether a set of fields in the format fieldsV1 is a subset of another.
func within(some, all any) bool {
	a, _ := some.(map[string]any)
	b, _ := all.(map[string]any)
	for name, fields := range a {
		if others, ok := b[name]; !ok || !within(fields, others) {
			return false
		}
	}
	return true
}

// program returns the program of a field manager. Operators on Kelson's library use one field
// manager to apply and another for other writes.
func program(manager string) string { return strings.TrimSuffix(manager, ":apply") }

// isKnownTool reports whether a field manager belongs to Kubernetes, Kelson or a common tool, and
// so not to the operator of a project.
func isKnownTool(manager string) bool {
	for _, prefix := range []string{"kube-", "kubectl", "kubelet", "kubeadm", "kubernetes-",
		"api-priority-and-fairness-", "clusterrole-aggregation-controller", "kelson", "cloud-controller-manager",
		"helm", "before-first-apply", "unknown", "storage-version", "validatingadmissionpolicy-status",
		"ResourceClaimController", "GoogleContainerEngine", "simulated", "argocd", "flux", "kustomize-controller",
		"helm-controller"} {
		if strings.HasPrefix(manager, prefix) {
			return true
		}
	}
	return manager == ""
}

// Managers returns the field managers in a history that may belong to an operator: all except those
// of Kubernetes and of common tools.
func Managers(h *history.History) ([]string, error) {
	found := map[string]bool{}
	for _, r := range h.Resources() {
		if ignored(r.Name()) {
			continue
		}
		for _, key := range h.Keys(r.Name()) {
			for v := range h.Versions(key) {
				_, data, _, err := h.At(v.Revision).Get(key)
				if err != nil {
					return nil, err
				}
				decoded, err := headOf(data)
				if err != nil {
					return nil, fmt.Errorf("%v at revision %d: %w", key, v.Revision, err)
				}
				for _, e := range decoded.Metadata.ManagedFields {
					if !isKnownTool(e.Manager) {
						found[program(e.Manager)] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// ignored reports whether a replay ignores a resource: Events and Leases are different in each run,
// and the other ignored resources belong to other servers.
func ignored(resource string) bool {
	switch resource {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io",
		"apiservices.apiregistration.k8s.io",
		"validatingwebhookconfigurations.admissionregistration.k8s.io",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":
		return true
	}
	return false
}
