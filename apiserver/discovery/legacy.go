package discovery

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"

	"kelson.dev/apiserver/resource"
)

// groupList returns the document at /apis.
func groupList(groups []group) *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"},
		Groups: []metav1.APIGroup{}}
	for _, g := range groups {
		if g.name != "" {
			list.Groups = append(list.Groups, groupDocument(g, false))
		}
	}
	return list
}

// groupDocument returns the document at /apis/<group>. Within a list it has no kind.
func groupDocument(g group, alone bool) metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	if alone {
		out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
	}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{
			GroupVersion: schema.GroupVersion{Group: g.name, Version: v.name}.String(), Version: v.name,
		})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

// resourceList returns the document at /api/v1 and /apis/<group>/<version>.
func resourceList(set *resource.Set, g group, v groupVersion) *metav1.APIResourceList {
	gv := schema.GroupVersion{Group: g.name, Version: v.name}
	list := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{},
	}
	if g.name == "" {
		list.APIVersion = "" // the core group predates versions of this document
	}
	for _, res := range v.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name:               res.Plural,
			SingularName:       res.Singular,
			Namespaced:         res.Namespaced,
			Kind:               res.Kind,
			Verbs:              verbs(res),
			ShortNames:         res.ShortNames,
			Categories:         res.Categories,
			StorageVersionHash: storageHash(set, res),
		})
		for i := range res.Subresources {
			if sub := &res.Subresources[i]; sub.In(v.name) {
				out := metav1.APIResource{Name: res.Plural + "/" + sub.Name, Namespaced: res.Namespaced, Kind: res.Kind,
					Verbs: subVerbs(sub)}
				if kind := subKind(sub, gv); kind != nil {
					out.Group, out.Version, out.Kind = kind.Group, kind.Version, kind.Kind
				}
				list.APIResources = append(list.APIResources, out)
			}
		}
	}
	sortResources(list.APIResources, !slices.ContainsFunc(v.resources, routed))
	return list
}

// sortResources sorts by name. In a version that has only custom kinds, subresources keep their
// order: status, then scale.
func sortResources(list []metav1.APIResource, custom bool) {
	name := func(r *metav1.APIResource) string {
		if parent, _, ok := strings.Cut(r.Name, "/"); ok && custom {
			return parent
		}
		return r.Name
	}
	slices.SortStableFunc(list, func(a, b metav1.APIResource) int { return strings.Compare(name(&a), name(&b)) })
}

// subKind returns the kind of a subresource, or nil if it is the resource's own. Group and version
// are empty if they are those of the document.
func subKind(sub *resource.Subresource, gv schema.GroupVersion) *schema.GroupVersionKind {
	if sub.GVK.Empty() {
		return nil
	}
	kind := sub.GVK
	if kind.GroupVersion() == gv {
		kind.Group, kind.Version = "", ""
	}
	return &kind
}

// verbs returns what a resource allows.
func verbs(res *resource.Resource) metav1.Verbs {
	switch {
	case res.Verbs != nil:
		return res.Verbs
	case res.Review != nil:
		return metav1.Verbs{resource.Create}
	}
	return resource.AllVerbs()
}

func subVerbs(sub *resource.Subresource) metav1.Verbs {
	switch {
	case sub.Verbs != nil:
		return slices.Sorted(slices.Values(sub.Verbs))
	case sub.Update != nil:
		return metav1.Verbs{resource.Get, resource.Patch, resource.Update}
	case sub.Create != nil:
		return metav1.Verbs{resource.Create}
	case sub.ConnectVerbs == nil:
		return metav1.Verbs{resource.Get}
	}
	var out metav1.Verbs
	for _, method := range sub.ConnectVerbs {
		if verb := resource.VerbOf(method); verb != "" {
			out = append(out, verb)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// storageHash returns the hash of the kind and version in which objects are stored. It is empty for
// kinds that are not stored, or stored in a version that is not served.
func storageHash(set *resource.Set, res *resource.Resource) string {
	if res.StoredAs != "" {
		stored, ok := set.ByPrefix(res.StoredAs)
		if !ok {
			return ""
		}
		res = stored
	}
	if _, ok := res.Serves(res.StorageVersion); !ok || res.Review != nil || res.Computed != nil ||
		!slices.Contains(verbs(res), resource.List) {
		return ""
	}
	return discovery.StorageVersionHash(res.Group, cmp.Or(res.HashVersion, res.StorageVersion), res.Kind)
}
