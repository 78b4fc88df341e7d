package aggregator

import (
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// aggregated converts the resources in a legacy document to the form in aggregated documents.
func aggregated(gv schema.GroupVersion, list []metav1.APIResource) []apidiscoveryv2.APIResourceDiscovery {
	out := []apidiscoveryv2.APIResourceDiscovery{}
	index := map[string]int{} // index in out, by name
	for _, r := range list {
		if r.Name == "" || strings.Contains(r.Name, "/") || contains(index, r.Name) {
			continue
		}
		index[r.Name] = len(out)
		out = append(out, apidiscoveryv2.APIResourceDiscovery{
			Resource: r.Name, ResponseKind: kindOf(gv, r), Scope: scopeOf(r), SingularResource: r.SingularName,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	for _, r := range list {
		name, sub, ok := strings.Cut(r.Name, "/")
		if !ok || name == "" || sub == "" {
			continue
		}
		if !contains(index, name) { // a subresource alone, such as one for access reviews
			index[name] = len(out)
			out = append(out, apidiscoveryv2.APIResourceDiscovery{Resource: name, Scope: scopeOf(r),
				ResponseKind: &metav1.GroupVersionKind{}})
		}
		parent := &out[index[name]]
		parent.Subresources = append(parent.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: sub, ResponseKind: kindOf(gv, r), Verbs: r.Verbs,
		})
	}
	return out
}

func contains(index map[string]int, name string) bool {
	_, ok := index[name]
	return ok
}

func scopeOf(r metav1.APIResource) apidiscoveryv2.ResourceScope {
	if r.Namespaced {
		return apidiscoveryv2.ScopeNamespace
	}
	return apidiscoveryv2.ScopeCluster
}

// kindOf returns the kind of a resource. It is never nil, because some clients would panic.
func kindOf(gv schema.GroupVersion, r metav1.APIResource) *metav1.GroupVersionKind {
	kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if kind.Kind != "" && kind.Group == "" && kind.Version == "" {
		kind.Group, kind.Version = gv.Group, gv.Version
	}
	return kind
}
