package discovery

import (
	"cmp"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/resource"
)

// aggregated returns the document of all groups below /api (core) or /apis (the others).
func aggregated(groups []group, core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
	for _, g := range groups {
		if (g.name == "") != core {
			continue
		}
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			item.Versions = append(item.Versions, aggregatedVersion(g, v))
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func aggregatedVersion(g group, v groupVersion) apidiscoveryv2.APIVersionDiscovery {
	gv := schema.GroupVersion{Group: g.name, Version: v.name}
	out := apidiscoveryv2.APIVersionDiscovery{Version: v.name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if v.other != nil {
		out.Resources = v.other.Resources
		if v.other.Stale {
			out.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		}
		return out
	}
	for _, res := range v.resources {
		resourceKind := ownKind(res, gv)
		item := apidiscoveryv2.APIResourceDiscovery{
			Resource:         res.Plural,
			ResponseKind:     resourceKind,
			Scope:            apidiscoveryv2.ScopeCluster,
			SingularResource: res.Singular,
			Verbs:            verbs(res),
			ShortNames:       res.ShortNames,
			Categories:       res.Categories,
		}
		if res.Namespaced {
			item.Scope = apidiscoveryv2.ScopeNamespace
		}
		for i := range res.Subresources {
			if sub := &res.Subresources[i]; sub.In(v.name) {
				kind := resourceKind
				if k := subKind(sub, gv); k != nil {
					kind = &metav1.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
				}
				item.Subresources = append(item.Subresources, apidiscoveryv2.APISubresourceDiscovery{
					Subresource: sub.Name, ResponseKind: kind, Verbs: subVerbs(sub),
				})
			}
		}
		slices.SortFunc(item.Subresources, func(a, b apidiscoveryv2.APISubresourceDiscovery) int {
			return cmp.Compare(a.Subresource, b.Subresource)
		})
		out.Resources = append(out.Resources, item)
	}
	return out
}

// ownKind returns the kind of a resource, with group and version if its Behavior requires that.
func ownKind(res *resource.Resource, gv schema.GroupVersion) *metav1.GroupVersionKind {
	if res.Behavior.QualifiedKind {
		return &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: res.Kind}
	}
	return &metav1.GroupVersionKind{Kind: res.Kind}
}
