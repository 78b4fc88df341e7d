package filters

import (
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// exempt reports whether a request is served however many others are in flight: the health checks, as in Kubernetes' FlowSchema
// "probes", and the single checks below them. Their work and their answers are bounded, so they need no seat.
func exempt(info *request.RequestInfo) bool {
	if info.IsResourceRequest || info.Verb != "get" && info.Verb != "head" {
		return false
	}
	for _, probe := range [...]string{"/healthz", "/livez", "/readyz"} {
		if rest, ok := strings.CutPrefix(info.Path, probe); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}
