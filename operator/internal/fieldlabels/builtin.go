package fieldlabels

import "k8s.io/apimachinery/pkg/runtime/schema"

// labelRule describes how a server computes a label of a compiled-in kind, if that is not the text
// of the field of that name.
type labelRule struct {
	zero string   // value of an unset field
	from []string // the first nonempty of these fields counts; nil for the label itself
}

func (o labelRule) paths(label string) []string {
	if o.from == nil {
		return []string{label}
	}
	return o.from
}

// builtin has the labels of k8s.io/kubernetes v1.37, pkg/apis/*/conversion.go and pkg/registry.
var builtin = map[schema.GroupVersionKind]map[string]labelRule{
	{Version: "v1", Kind: "Pod"}: {
		"spec.host":        {from: []string{"spec.nodeName"}},
		"spec.hostNetwork": {zero: "false"},
		// the server accepts the label but has no value for it
		"status.podIPs": {from: []string{}},
	},
	{Version: "v1", Kind: "Node"}:                  {"spec.unschedulable": {zero: "false"}},
	{Version: "v1", Kind: "ReplicationController"}: {"status.replicas": {zero: "0"}},
	{Version: "v1", Kind: "Event"}: {
		"source": {from: []string{"source.component", "reportingComponent"}}},
	{Group: "batch", Version: "v1", Kind: "Job"}: {"status.successful": {zero: "0",
		from: []string{"status.succeeded"}}},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}: {"status.replicas": {zero: "0"}},
}
