package builtin

import (
	"testing"

	"k8s.io/kubernetes/pkg/apis/rbac"

	"kelson.dev/internal/assert"
)

// Rules with too many combinations are refused before they are expanded.
func TestPermissionsAreLimited(t *testing.T) {
	names := func(n int) []string { return make([]string, n) }
	for name, test := range map[string]struct {
		rules []rbac.PolicyRule
		few   bool
	}{
		"none": {nil, true},
		"ordinary": {[]rbac.PolicyRule{{APIGroups: names(3), Resources: names(20), Verbs: names(8)},
			{NonResourceURLs: names(5), Verbs: names(2)}}, true},
		"a product": {[]rbac.PolicyRule{{APIGroups: names(100), Resources: names(100), Verbs: names(100)}}, false},
		"names": {[]rbac.PolicyRule{{APIGroups: names(1), Resources: names(10), Verbs: names(10),
			ResourceNames: names(1000)}}, false},
		"paths": {[]rbac.PolicyRule{{NonResourceURLs: names(1000), Verbs: names(1000)}}, false},
		"overflow": {[]rbac.PolicyRule{{APIGroups: names(1 << 20), Resources: names(1 << 20),
			Verbs: names(1 << 20), ResourceNames: names(1 << 20)}}, false},
		"a sum": {make([]rbac.PolicyRule, maxPermissions), false},
		"many products": {[]rbac.PolicyRule{{APIGroups: names(30), Resources: names(30), Verbs: names(30)},
			{APIGroups: names(30), Resources: names(30), Verbs: names(30)}}, false},
	} {
		err := fewPermissions(test.rules)
		assert.Equalf(t, err == nil, test.few, "%s: %v", name, err)
	}
}
