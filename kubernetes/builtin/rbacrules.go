package builtin

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/apis/rbac"
)

// maxPermissions limits how many combinations of group, resource, verb and name are compared with
// the permissions of a user. Kubernetes' library expands the rules to these combinations and
// compares each with every rule of the user. A role of a hundred kilobytes can have four lists with
// a thousand elements each, whose combinations would exhaust the memory.
const maxPermissions = 50_000

// permissions counts combinations, up to maxPermissions+1.
type permissions struct{ count int }

func (p *permissions) add(groups, resources, verbs, names, urls int) {
	for _, factors := range [][]int{{groups, resources, verbs, max(names, 1)}, {urls, verbs}} {
		product := 1
		for _, n := range factors {
			product = min(product*n, maxPermissions+1)
		}
		// A rule that grants nothing counts as one combination, because the library also compares
		// it.
		p.count = min(p.count+max(product, 1), maxPermissions+1)
	}
}

// err returns an error if there are too many combinations.
func (p *permissions) err() error {
	if p.count <= maxPermissions {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(
		fmt.Sprintf("the rules combine to more than %d permissions, too many to compare with those of the user",
			maxPermissions))
}

func fewPermissions(rules []rbac.PolicyRule) error {
	var p permissions
	for _, r := range rules {
		p.add(len(r.APIGroups), len(r.Resources), len(r.Verbs), len(r.ResourceNames), len(r.NonResourceURLs))
	}
	return p.err()
}

func fewPermissionsOf(rules []rbacv1.PolicyRule) error {
	var p permissions
	for _, r := range rules {
		p.add(len(r.APIGroups), len(r.Resources), len(r.Verbs), len(r.ResourceNames), len(r.NonResourceURLs))
	}
	return p.err()
}
