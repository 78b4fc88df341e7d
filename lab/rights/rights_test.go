package rights_test

import (
	"fmt"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/rights"
	"kelson.dev/toolchain/gen/rbac"
)

func event(user, verb, group, resource, sub, namespace string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":%q,"user":{"username":%q},"userAgent":"manager/v1","requestURI":"/x?y",`+
		`"objectRef":{"apiGroup":%q,"resource":%q,"subresource":%q,"namespace":%q}}`+"\n", verb, user, group, resource,
		sub, namespace)
}

func audit(t *testing.T, log string) rights.Audit {
	t.Helper()
	a, err := rights.FromAudit(strings.NewReader(log), rights.Filter{User: "op", UserAgent: "manager"})
	require.NoError(t, err)
	return a
}

func TestRequestsOfAnAuditLog(t *testing.T) {
	a := audit(t, event("op", "list", "", "pods", "", "")+
		event("op", "create", "", "pods", "eviction", "shop")+
		event("op", "create", "", "pods", "eviction", "shop")+
		event("other", "delete", "", "nodes", "", "")+
		event("op", "create", "authorization.k8s.io", "selfsubjectaccessreviews", "", "")+
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"userAgent":"manager","requestURI":"/apis/apps/v1?timeout=32s"}`+"\n"+
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"userAgent":"manager","requestURI":"/metrics?x"}`+"\n"+
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"userAgent":"kubectl","requestURI":"/logs"}`+"\n"+
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"watch","user":{"username":"admin"},"impersonatedUser":{"username":"op"},"userAgent":"manager","objectRef":{"resource":"pods"}}`+"\n"+
		`{"kind":"Event","apiVer`)
	want := []rights.Request{{Verb: "get", URL: "/metrics"}, {Verb: "list", Resource: "pods"},
		{Verb: "watch", Resource: "pods"}, {Verb: "create", Resource: "pods/eviction", Namespace: "shop"}}
	assert.Slicef(t, a.Requests, want, "requests")
	if a.Users["other"] != 1 || a.Users["op"] == 0 || a.Users["admin"] != 0 {
		t.Errorf("users: %v", a.Users)
	}
	for _, log := range []string{"no JSON\n", "{}\n"} {
		_, err := rights.FromAudit(strings.NewReader(log), rights.Filter{})
		assert.ErrorContainsf(t, err, "line 1", "%q", log)
	}
}

// A server-side apply or an update that creates an object needs the verb create too.
func TestCreatingApplies(t *testing.T) {
	status := func(event, status string) string {
		return strings.Replace(event, `"requestURI"`, `"responseStatus":`+status+`,"requestURI"`, 1)
	}
	a := audit(t, status(event("op", "patch", "", "secrets", "", "shop"), `{"code":201}`)+
		status(event("op", "patch", "", "pods", "", "shop"), `{"code":200}`)+
		status(event("op", "update", "coordination.k8s.io", "leases", "", "shop"), `{"code":201}`)+
		status(event("op", "patch", "apps", "deployments", "", "shop"),
			`{"code":403,"message":"deployments.apps \"web\" is forbidden: User \"op\" cannot create resource \"deployments\" in API group \"apps\""}`))
	requests := func(of ...[]string) (all []rights.Request) {
		for _, r := range of {
			all = append(all, rights.Request{Verb: r[0], Group: r[1], Resource: r[2], Namespace: "shop"})
		}
		return all
	}
	want := requests([]string{"patch", "", "pods"}, []string{"create", "", "secrets"}, []string{"patch", "", "secrets"},
		[]string{"create", "apps", "deployments"}, []string{"patch", "apps", "deployments"},
		[]string{"create", "coordination.k8s.io", "leases"}, []string{"update", "coordination.k8s.io", "leases"})
	assert.Slicef(t, a.Requests, want, "requests")
	assert.Slicef(t, a.Refused, requests([]string{"create", "apps", "deployments"}), "refused")
}

// Impersonation of other users needs rules, as do requests for paths that Kubernetes' default roles
// do not contain.
func TestRequestsOfAnImpersonator(t *testing.T) {
	as := func(other string) string {
		return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"impersonatedUser":` + other + `,"userAgent":"manager","objectRef":{"resource":"pods"}}` + "\n"
	}
	a := audit(t, as(`{"username":"jane","groups":["system:authenticated"]}`)+
		as(`{"username":"system:serviceaccount:shop:web","groups":["system:serviceaccounts","system:serviceaccounts:shop","system:authenticated"]}`))
	want := []rights.Request{{Verb: "impersonate", Resource: "serviceaccounts", Namespace: "shop"},
		{Verb: "impersonate", Resource: "users"}}
	assert.Slicef(t, a.Requests, want, "requests")
	a = audit(t, as(`{"username":"jane","uid":"7","groups":["team","system:authenticated"],"extra":{"Scopes":["a"]}}`))
	want = []rights.Request{{Verb: "impersonate", Resource: "groups"}, {Verb: "impersonate", Resource: "users"},
		{Verb: "impersonate", Group: "authentication.k8s.io", Resource: "uids"},
		{Verb: "impersonate", Group: "authentication.k8s.io", Resource: "userextras/scopes"}}
	assert.Slicef(t, a.Requests, want, "requests")
	get := func(path string) string {
		return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"userAgent":"manager","requestURI":"` + path + `"}` + "\n"
	}
	a = audit(t, get("/readyz")+get("/readyz/etcd")+get("/openapi/v3"))
	assert.Slicef(t, a.Requests, []rights.Request{{Verb: "get", URL: "/readyz/etcd"}}, "requests")
}

// A User-Agent alone selects the requests of a program under any name, without those that it sends
// for other users.
func TestUserAgentAlone(t *testing.T) {
	log := event("op", "list", "", "pods", "", "") + event("other", "get", "", "nodes", "", "") +
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"userAgent":"kubectl","objectRef":{"resource":"secrets"}}` + "\n" +
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"impersonatedUser":{"username":"ann"},"userAgent":"manager","objectRef":{"resource":"secrets"}}` + "\n"
	a, err := rights.FromAudit(strings.NewReader(log), rights.Filter{UserAgent: "manager"})
	want := []rights.Request{{Verb: "get", Resource: "nodes"}, {Verb: "list", Resource: "pods"},
		{Verb: "impersonate", Resource: "users"}}
	if err != nil || !slices.Equal(a.Requests, want) {
		t.Errorf("%v, requests %v\nwant %v", err, a.Requests, want)
	}
}

// An operator that watches all namespaces gets a ClusterRole, also for what it creates beside the
// watched objects, which were in one namespace when the log was written. Its Lease, and the objects
// of another namespace, need only a Role.
func TestScopeFollowsWatches(t *testing.T) {
	a := audit(t, event("op", "watch", "example.com", "shops", "", "")+
		event("op", "patch", "example.com", "shops", "status", "default")+
		event("op", "create", "", "secrets", "", "default")+
		event("op", "update", "coordination.k8s.io", "leases", "", "default")+
		event("op", "get", "", "configmaps", "", "system"))
	got := map[string][]string{}
	for _, role := range rights.Roles("manager-role", a.Requests, nil) {
		for _, rule := range role.Rules {
			got[role.Namespace] = append(got[role.Namespace], rule.Resources...)
		}
	}
	want := map[string][]string{"": {"secrets", "shops", "shops/status"}, "default": {"leases"}, "system": {"configmaps"}}
	assert.Deepf(t, got, want, "resources by namespace")
}

// The least roles allow every request. Without any verb of any rule, they do not.
func TestRolesAreMinimal(t *testing.T) {
	a := audit(t, event("op", "list", "", "pods", "", "")+event("op", "get", "", "pods", "", "a")+
		event("op", "update", "coordination.k8s.io", "leases", "", "system")+
		event("op", "create", "coordination.k8s.io", "leases", "", "system")+
		event("op", "patch", "apps", "deployments", "status", "a")+
		event("op", "patch", "apps", "deployments", "status", "b")+
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"userAgent":"manager","requestURI":"/metrics"}`+"\n")
	roles := rights.Roles("manager-role", a.Requests, nil)
	doc, err := rbac.YAML(roles)
	if err != nil || strings.Count(string(doc), "kind: ClusterRole\n") != 1 ||
		strings.Count(string(doc), "kind: Role\n") != 1 || strings.Contains(string(doc), "resourceNames") {
		t.Errorf("%v\n%s", err, doc)
	}
	if c := rights.Compare(a.Requests, roles, nil); len(c.Missing) > 0 {
		t.Errorf("missing: %v", c.Missing)
	}
	for i := range roles {
		for j := range roles[i].Rules {
			all := roles[i].Rules[j].Verbs
			for k := range all {
				roles[i].Rules[j].Verbs = slices.Delete(slices.Clone(all), k, k+1)
				if c := rights.Compare(a.Requests, roles, nil); len(c.Missing) == 0 {
					t.Errorf("%v is not needed", all[k])
				}
			}
			roles[i].Rules[j].Verbs = all
		}
	}
}

// A watch also needs list, on servers that do not support watches that begin with the state.
func TestWatchesNeedList(t *testing.T) {
	a := audit(t, event("op", "watch", "", "pods", "", ""))
	roles := rights.Roles("manager-role", a.Requests, nil)
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"},
		Verbs: []string{"list", "watch"}}}
	if len(roles) != 1 || !reflect.DeepEqual(roles[0].Rules, want) {
		t.Errorf("roles: %+v", roles)
	}
	declared := []rbac.Declaration{{Rule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"},
		Verbs: []string{"get", "list", "watch"}}}}
	if c := rights.Compare(a.Requests, roles, declared); len(c.Unused) != 1 ||
		!slices.Equal(c.Unused[0].Verbs, []string{"get"}) {
		t.Errorf("unused: %v", c.Unused)
	}
}

func TestCompareWithMarkers(t *testing.T) {
	declare := func(line int, groups, resources string, verbs ...string) rbac.Declaration {
		return rbac.Declaration{Pos: token.Position{Filename: "c.go", Line: line, Column: 4},
			Rule: rbacv1.PolicyRule{APIGroups: []string{groups}, Resources: []string{resources}, Verbs: verbs}}
	}
	declared := []rbac.Declaration{
		declare(1, "", "pods", "get", "list"),
		declare(2, "", "secrets", "get", "list"),
		declare(3, "apps", "deployments", "*"),
		declare(4, "x.io", "things/finalizers", "update"),
		declare(5, "", "*/eviction", "create"),
	}
	var roles []rbac.Role
	for _, d := range declared {
		roles = append(roles, rbac.Role{Rules: []rbacv1.PolicyRule{d.Rule}})
	}
	a := audit(t, event("op", "list", "", "pods", "", "")+event("op", "patch", "apps", "deployments", "", "a")+
		event("op", "create", "", "pods", "eviction", "a")+event("op", "update", "x.io", "things", "status", "a"))
	c := rights.Compare(a.Requests, roles, declared)
	assert.Equalf(t, fmt.Sprint(c.Missing), "[update things.x.io/status in namespace a]", "missing")
	want := "[c.go:1:4: unused: get of pods c.go:2:4: unused: get;list of secrets c.go:3:4: only patch of deployments is used, not *]"
	assert.Equalf(t, fmt.Sprint(c.Unused), want, "unused")
}
