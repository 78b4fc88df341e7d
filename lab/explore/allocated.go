package explore

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// tokenVolume is the name of the volume that the server adds to Pods.
var tokenVolume = regexp.MustCompile(`^kube-api-access-[a-z0-9]{5}$`)

// allocated lists fields, by kind, for which the control plane allocates a free value. The values
// depend on the order in which equal objects are created.
var allocated = map[string][]string{
	"Pod":           {"containerID", "podIP", "podIPs", "hostIP", "hostIPs", "nodeName"},
	"Service":       {"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"},
	"Endpoints":     {"ip", "nodeName"},
	"EndpointSlice": {"addresses", "nodeName"},
}

// hideAllocated replaces allocated values in an object by a placeholder. It keeps the difference
// between a set and an unset field, and the value None of headless Services.
func hideAllocated(kind string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if slices.Contains(allocated[kind], key) &&
				!slices.Contains([]string{"", "None", "[None]"}, fmt.Sprint(member)) {
				v[key] = "allocated"
				continue
			}
			v[key] = hideAllocated(kind, member)
		}
	case []any:
		for i := range v {
			v[i] = hideAllocated(kind, v[i])
		}
		if kind == "EndpointSlice" || kind == "Endpoints" {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return v
}
