package filters

import (
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// exempt reports whether a request needs no seat: health checks, as in Kubernetes' FlowSchema
// "probes", and the single checks below them. Their work and their responses are bounded.
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
