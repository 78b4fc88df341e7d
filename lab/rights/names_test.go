package rights_test

import (
	"fmt"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/rights"
)

// named is an event of a request for an object of a name.
func named(verb, group, resource, sub, name string) string {
	return strings.Replace(event("op", verb, group, resource, sub, "default"), `"namespace":`,
		fmt.Sprintf(`"name":%q,"namespace":`, name), 1)
}

// Rules get resourceNames where all requests name the same objects, except for creations. Rules for
// resources that the operator watches have none, nor do rules for names that are computed from
// watched objects.
func TestResourceNames(t *testing.T) {
	for _, test := range []struct {
		about, log string
		want       []string
	}{
		{"a Lease", named("get", "coordination.k8s.io", "leases", "", "leader") +
			named("update", "coordination.k8s.io", "leases", "", "leader") +
			named("create", "coordination.k8s.io", "leases", "", ""),
			[]string{"[create] [leases] []", "[get update] [leases] [leader]"}},
		{"several names", named("get", "", "configmaps", "", "a") + named("patch", "", "configmaps", "", "b"),
			[]string{"[get patch] [configmaps] [a b]"}},
		{"many names", named("get", "", "secrets", "", "a") + named("get", "", "secrets", "", "b") +
			named("get", "", "secrets", "", "c") + named("get", "", "secrets", "", "d") +
			named("get", "", "secrets", "", "e"),
			[]string{"[get] [secrets] []"}},
		{"a watch of all objects", event("op", "watch", "", "secrets", "", "default") +
			named("get", "", "secrets", "", "key") + named("update", "", "secrets", "status", "key"),
			[]string{"[get list watch] [secrets] []", "[update] [secrets/status] []"}},
		{"a watch with a field selector", named("watch", "", "secrets", "", "key") +
			named("get", "", "secrets", "", "key"),
			[]string{"[get list watch] [secrets] [key]"}},
		{"a subresource", named("patch", "apps", "deployments", "scale", "web"),
			[]string{"[patch] [deployments/scale] [web]"}},
		{"the deletion of all objects", named("delete", "", "pods", "", "a") +
			event("op", "deletecollection", "", "pods",
				"", "default"), []string{"[delete deletecollection] [pods] []"}},
		{"a computed name", event("op", "watch", "example.com", "shops", "", "default") +
			named("update", "example.com", "shops", "status", "shop") + named("get", "", "secrets", "", "shop-key") +
			named("get", "", "configmaps", "", "workshop"),
			[]string{"[get] [configmaps] [workshop]", "[get] [secrets] []", "[list watch] [shops] []",
				"[update] [shops/status] []"}},
	} {
		a := audit(t, test.log)
		var got []string
		for _, role := range rights.Roles("r", a.Requests, a.Names) {
			for _, rule := range role.Rules {
				got = append(got, fmt.Sprint(rule.Verbs, rule.Resources, rule.ResourceNames))
			}
		}
		assert.Slicef(t, got, test.want, "%s", test.about)
		for _, role := range rights.Roles("r", a.Requests, nil) {
			for _, rule := range role.Rules {
				if rule.ResourceNames != nil {
					t.Errorf("%s: without names: %+v", test.about, rule)
				}
			}
		}
	}
	a := audit(t, named("get", "coordination.k8s.io", "leases", "", "leader")+event("op", "list", "", "pods", "", ""))
	assert.Slicef(t, a.Names.Restrictable(), []string{"leases.coordination.k8s.io leader"}, "restrictable")
}
