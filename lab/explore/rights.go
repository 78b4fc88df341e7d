package explore

import (
	"maps"
	"slices"
	"strings"
)

// markersFor returns the markers of kubebuilder that allow requests, one for each resource. The
// requests are those of an alarm, such as "list deployments.apps": a verb, a resource with its
// group, and perhaps an object. A client that lists also watches, because its cache does.
func markersFor(requests []string) []string {
	verbs := map[string]map[string]bool{} // by resource
	for _, request := range requests {
		fields := strings.Fields(request)
		if len(fields) < 2 {
			continue
		}
		all := []string{infoVerb(fields[0])}
		if all[0] == "list" || all[0] == "watch" {
			all = []string{"list", "watch"}
		}
		if verbs[fields[1]] == nil {
			verbs[fields[1]] = map[string]bool{}
		}
		for _, verb := range all {
			verbs[fields[1]][verb] = true
		}
	}
	var markers []string
	for _, resource := range slices.Sorted(maps.Keys(verbs)) {
		name, subresource, has := strings.Cut(resource, "/")
		name, group, _ := strings.Cut(name, ".")
		if has {
			name += "/" + subresource
		}
		if group == "" {
			group = `""`
		}
		markers = append(markers, "//+kubebuilder:rbac:groups="+group+",resources="+name+",verbs="+
			strings.Join(slices.Sorted(maps.Keys(verbs[resource])), ";"))
	}
	return markers
}
