package discovery

import "k8s.io/apimachinery/pkg/runtime/schema"

// Paths returns the paths of all current documents: roots, groups and their versions.
func (h *Handler) Paths() []string {
	paths := []string{"/api", "/apis", "/apis/"}
	for _, g := range h.documents().groups {
		root := "/api"
		if g.name != "" {
			root = "/apis"
			paths = append(paths, "/apis/"+g.name)
		}
		for _, v := range g.versions {
			paths = append(paths, root+"/"+schema.GroupVersion{Group: g.name, Version: v.name}.String())
		}
	}
	return paths
}
