package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/discovery"
)

// groupPriorities are kube-apiserver's priorities of Kubernetes' own groups. Sources: the tables of
// priorities in k8s.io/kubernetes/pkg/controlplane/apiserver and
// k8s.io/kubernetes/cmd/kube-apiserver/app.
var groupPriorities = map[string]int32{
	"apiregistration.k8s.io":       20001, // more than an APIService can have
	"":                             18000,
	"apps":                         17800,
	"events.k8s.io":                17750,
	"authentication.k8s.io":        17700,
	"authorization.k8s.io":         17600,
	"autoscaling":                  17500,
	"batch":                        17400,
	"certificates.k8s.io":          17300,
	"networking.k8s.io":            17200,
	"policy":                       17100,
	"rbac.authorization.k8s.io":    17000,
	"storage.k8s.io":               16800,
	"admissionregistration.k8s.io": 16700,
	"apiextensions.k8s.io":         16700,
	"scheduling.k8s.io":            16600,
	"coordination.k8s.io":          16500,
	"node.k8s.io":                  16300,
	"discovery.k8s.io":             16200,
	"resource.k8s.io":              16200,
	"flowcontrol.apiserver.k8s.io": 16100,
	"internal.apiserver.k8s.io":    16000,
	"storagemigration.k8s.io":      15800,
	"lifecycle.k8s.io":             15700,
}

// versionPriorities are the priorities within Kubernetes' own groups that are not those of
// versionPriority.
var versionPriorities = map[schema.GroupVersion]int32{
	{Version: "v1"}:                                              1,
	{Group: "autoscaling", Version: "v2"}:                        30,
	{Group: "events.k8s.io", Version: "v1beta1"}:                 5,
	{Group: "admissionregistration.k8s.io", Version: "v1beta1"}:  12,
	{Group: "admissionregistration.k8s.io", Version: "v1alpha1"}: 9,
	{Group: "coordination.k8s.io", Version: "v1beta1"}:           13,
	{Group: "coordination.k8s.io", Version: "v1alpha2"}:          12,
	{Group: "discovery.k8s.io", Version: "v1beta1"}:              12,
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}:       21,
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3"}:  18,
	{Group: "internal.apiserver.k8s.io", Version: "v1alpha1"}:    9,
	{Group: "resource.k8s.io", Version: "v1"}:                    21,
	{Group: "resource.k8s.io", Version: "v1beta2"}:               15,
	{Group: "scheduling.k8s.io", Version: "v1alpha3"}:            3,
}

// versionPriority returns the usual priority of a version of Kubernetes' own groups.
func versionPriority(version string) int32 {
	switch version {
	case "v1":
		return 15
	case "v1beta1":
		return 9
	}
	return 1
}

// Priorities returns the priorities of a group version in kube-apiserver, unless an APIService sets
// others.
func Priorities(gv schema.GroupVersion) discovery.Priorities {
	group, ok := groupPriorities[gv.Group]
	if !ok {
		return discovery.CustomPriorities(gv)
	}
	version, ok := versionPriorities[gv]
	if !ok {
		version = versionPriority(gv.Version)
	}
	return discovery.Priorities{Group: group, Version: version}
}
