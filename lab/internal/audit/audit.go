// Package audit has what the readers of Kubernetes' audit logs share.
package audit

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsDryRun reports whether a request stored nothing, by its URI, verb and subresource. The options
// of deletions and evictions are in the body, which is empty if the log lacks it.
func IsDryRun(uri, verb, subresource string, body []byte) bool {
	if strings.Contains(uri, "dryRun=All") {
		return true
	}
	if !strings.HasPrefix(verb, "delete") && subresource != "eviction" {
		return false
	}
	var options struct {
		metav1.DeleteOptions
		Eviction metav1.DeleteOptions `json:"deleteOptions"`
	}
	return json.Unmarshal(body, &options) == nil && len(options.DryRun)+len(options.Eviction.DryRun) > 0
}
