package discovery

import "k8s.io/apimachinery/pkg/runtime/schema"

// Priorities order groups, and versions within their group: the highest first, then by name. A
// group has the highest priority of its versions. Clients prefer earlier groups: if two kinds share
// a short name, kubectl uses the kind of the earlier group.
type Priorities struct{ Group, Version int32 }

// customPriorities are those of custom kinds in kube-apiserver.
var customPriorities = Priorities{Group: 1000, Version: 100}

// builtinGroups lists Kubernetes' own groups and their priorities in kube-apiserver, in order.
// Sources: the tables of priorities in k8s.io/kubernetes/pkg/controlplane/apiserver and
// k8s.io/kubernetes/cmd/kube-apiserver/app.
var builtinGroups = []struct {
	name     string
	priority int32
}{
	{"apiregistration.k8s.io", 20001}, // more than an APIService can have
	{"", 18000}, {"apps", 17800}, {"events.k8s.io", 17750}, {"authentication.k8s.io", 17700}, {"authorization.k8s.io", 17600},
	{"autoscaling", 17500}, {"batch", 17400}, {"certificates.k8s.io", 17300}, {"networking.k8s.io", 17200}, {"policy", 17100},
	{"rbac.authorization.k8s.io", 17000}, {"storage.k8s.io", 16800}, {"admissionregistration.k8s.io", 16700},
	{"apiextensions.k8s.io", 16700}, {"scheduling.k8s.io", 16600}, {"coordination.k8s.io", 16500}, {"node.k8s.io", 16300},
	{"discovery.k8s.io", 16200}, {"resource.k8s.io", 16200}, {"flowcontrol.apiserver.k8s.io", 16100},
	{"internal.apiserver.k8s.io", 16000}, {"storagemigration.k8s.io", 15800}, {"lifecycle.k8s.io", 15700},
}

// builtinVersions are the priorities within Kubernetes' own groups that are not those of
// builtinVersion.
var builtinVersions = map[schema.GroupVersion]int32{
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

// builtinVersion returns the usual priority of a version of Kubernetes' own groups.
func builtinVersion(version string) int32 {
	switch version {
	case "v1":
		return 15
	case "v1beta1":
		return 9
	}
	return 1
}

// PrioritiesOf returns the priorities of a group version that no APIService sets: those of
// kube-apiserver for Kubernetes' own groups, and of custom kinds for all others.
func PrioritiesOf(gv schema.GroupVersion) Priorities {
	i := builtinGroup(gv.Group)
	if i < 0 {
		return customPriorities
	}
	version, ok := builtinVersions[gv]
	if !ok {
		version = builtinVersion(gv.Version)
	}
	return Priorities{Group: builtinGroups[i].priority, Version: version}
}

// builtinGroup returns the index of a group in builtinGroups, or -1.
func builtinGroup(name string) int {
	for i := range builtinGroups {
		if builtinGroups[i].name == name {
			return i
		}
	}
	return -1
}
