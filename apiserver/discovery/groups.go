package discovery

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/version"

	"kelson.dev/apiserver/resource"
)

// group is one API group of a set.
type group struct {
	name     string
	priority int32
	versions []groupVersion // preferred versions first
}

// groupVersion is one served version of a group.
type groupVersion struct {
	name       string
	priorities Priorities
	resources  []*resource.Resource // sorted by plural
	other      *Other               // nil: this server serves the group version
}

// groupsOf returns the groups of a set and of other servers by priority, then name. The versions of
// each group are sorted by priority, then in Kubernetes' order (v2 before v1 before v1beta1).
func groupsOf(set *resource.Set, others Others, priorities PriorityFunc) []group {
	byName := map[string]map[string]*groupVersion{}
	version := func(gv schema.GroupVersion) *groupVersion {
		if byName[gv.Group] == nil {
			byName[gv.Group] = map[string]*groupVersion{}
		}
		v := byName[gv.Group][gv.Version]
		if v == nil {
			v = &groupVersion{name: gv.Version, priorities: priorities(gv)}
			byName[gv.Group][gv.Version] = v
		}
		return v
	}
	for _, res := range set.All() {
		for _, v := range res.Versions {
			in := version(schema.GroupVersion{Group: res.Group, Version: v.Name})
			in.resources = append(in.resources, res)
		}
	}
	for gv, other := range others {
		if byName[gv.Group][gv.Version] == nil && !other.Served {
			continue
		}
		v := version(gv)
		v.priorities = other.Priorities
		if other.Served {
			v.other, v.resources = &other, nil
		}
	}
	var out []group
	for name, versions := range byName {
		g := group{name: name}
		for _, v := range versions {
			g.versions = append(g.versions, *v)
			g.priority = max(g.priority, v.priorities.Group)
		}
		slices.SortFunc(g.versions, func(a, b groupVersion) int {
			return cmp.Or(cmp.Compare(b.priorities.Version, a.priorities.Version),
				utilversion.CompareKubeAwareVersionStrings(b.name, a.name))
		})
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
	})
	return out
}
