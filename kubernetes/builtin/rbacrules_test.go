package builtin

import (
	"testing"

	"k8s.io/kubernetes/pkg/apis/rbac"
)

// Rules with too many combinations are refused before they are expanded.
func TestPermissionsAreLimited(t *testing.T) {
	some := func(n int) []string { return make([]string, n) }
	for name, test := range map[string]struct {
		rules []rbac.PolicyRule
		few   bool
	}{
		"none":          {nil, true},
		"ordinary":      {[]rbac.PolicyRule{{APIGroups: some(3), Resources: some(20), Verbs: some(8)}, {NonResourceURLs: some(5), Verbs: some(2)}}, true},
		"a product":     {[]rbac.PolicyRule{{APIGroups: some(100), Resources: some(100), Verbs: some(100)}}, false},
		"names":         {[]rbac.PolicyRule{{APIGroups: some(1), Resources: some(10), Verbs: some(10), ResourceNames: some(1000)}}, false},
		"paths":         {[]rbac.PolicyRule{{NonResourceURLs: some(1000), Verbs: some(1000)}}, false},
		"overflow":      {[]rbac.PolicyRule{{APIGroups: some(1 << 20), Resources: some(1 << 20), Verbs: some(1 << 20), ResourceNames: some(1 << 20)}}, false},
		"a sum":         {make([]rbac.PolicyRule, maxPermissions), false},
		"many products": {[]rbac.PolicyRule{{APIGroups: some(30), Resources: some(30), Verbs: some(30)}, {APIGroups: some(30), Resources: some(30), Verbs: some(30)}}, false},
	} {
		if err := fewPermissions(test.rules); (err == nil) != test.few {
			t.Errorf("%s: %v", name, err)
		}
	}
}
