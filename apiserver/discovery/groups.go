package discovery

import (
	"cmp"
	"slices"

	utilversion "k8s.io/apimachinery/pkg/version"

	"kelson.dev/apiserver/resource"
)

// group is one API group of a set.
type group struct {
	name     string
	versions []groupVersion // best first
}

// groupVersion is one served version of a group.
type groupVersion struct {
	name      string
	resources []*resource.Resource // by plural
}

// builtin lists Kubernetes' own groups in kube-apiserver's order. The order matters to clients: if
// two kinds share a short name, kubectl uses the kind of the earlier group. Source: the group
// priorities of k8s.io/kubernetes/pkg/controlplane.
func builtin() []string {
	return []string{
		"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch",
		"certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
		"discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "storagemigration.k8s.io",
		"lifecycle.k8s.io",
	}
}

// groupsOf sorts the groups of a set: Kubernetes' groups in their order, then the others by name.
// The versions of each group are in Kubernetes' order (v2 before v1 before v1beta1).
func groupsOf(set *resource.Set) []group {
	byName := map[string]map[string][]*resource.Resource{}
	for _, res := range set.All() {
		for _, v := range res.Versions {
			if byName[res.Group] == nil {
				byName[res.Group] = map[string][]*resource.Resource{}
			}
			byName[res.Group][v.Name] = append(byName[res.Group][v.Name], res)
		}
	}
	var out []group
	for name, versions := range byName {
		g := group{name: name}
		for version, resources := range versions {
			g.versions = append(g.versions, groupVersion{version, resources})
		}
		slices.SortFunc(g.versions, func(a, b groupVersion) int {
			return utilversion.CompareKubeAwareVersionStrings(b.name, a.name)
		})
		out = append(out, g)
	}
	order := map[string]int{}
	for i, name := range builtin() {
		order[name] = i + 1
	}
	rank := func(g group) int {
		if n := order[g.name]; n > 0 {
			return n
		}
		return len(order) + 1
	}
	slices.SortFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
	})
	return out
}
