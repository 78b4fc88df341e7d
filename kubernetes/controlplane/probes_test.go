package controlplane_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// definition returns a minimal CustomResourceDefinition.
func definition(plural, kind, scope string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.probe.example.com"},
		"spec":{"group":"probe.example.com","scope":%[3]q,"names":{"plural":%[1]q,"kind":%[2]q},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		plural, kind, scope)
}

// ask sends one request as a user and does not clean the path.
func ask(t testing.TB, plane *controlplane.ControlPlane, who user.Info, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://plane"+path, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := plane.TransportAs(who).RoundTrip(req)
	require.NoError(t, err)
	answer := require.Body(t, resp)
	return resp.StatusCode, string(answer)
}

// probed is a control plane with two namespaced custom resources and a cluster-scoped one, and a
// user ann who may do everything with the first kind in the namespace default, and list it
// everywhere.
func probed(t *testing.T) (plane *controlplane.ControlPlane, admin, ann user.Info) {
	plane = start(t, controlplane.Config{})
	admin, ann = &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}},
		&user.DefaultInfo{Name: "ann"}
	for _, body := range []string{
		definition("things", "Thing", "Namespaced"), definition("others", "Other", "Namespaced"),
		definition("globals", "Global", "Cluster"),
	} {
		if code, answer := ask(t, plane, admin, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			body); code != http.StatusCreated {
			t.Fatalf("%d %s", code, answer)
		}
	}
	for path, body := range map[string]string{
		"/apis/probe.example.com/v1/namespaces/default/things":     `{"apiVersion":"probe.example.com/v1","kind":"Thing","metadata":{"name":"mine"}}`,
		"/apis/probe.example.com/v1/namespaces/default/others":     `{"apiVersion":"probe.example.com/v1","kind":"Other","metadata":{"name":"hidden"}}`,
		"/apis/probe.example.com/v1/namespaces/kube-system/things": `{"apiVersion":"probe.example.com/v1","kind":"Thing","metadata":{"name":"hidden"}}`,
		"/apis/probe.example.com/v1/globals":                       `{"apiVersion":"probe.example.com/v1","kind":"Global","metadata":{"name":"hidden"}}`,
		"/api/v1/namespaces/kube-system/secrets":                   `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"hidden"}}`,
	} {
		if code, answer := ask(t, plane, admin, "POST", path, body); code != http.StatusCreated {
			t.Fatalf("%d %s", code, answer)
		}
	}
	ctx, root := t.Context(), client(plane, "root", user.SystemPrivilegedGroup)
	all := rule("*", "probe.example.com", "*")
	require.Value[*rbacv1.Role](t)(root.RbacV1().Roles("default").Create(ctx, role("all", all), createOpts))
	require.Value[*rbacv1.RoleBinding](t)(root.RbacV1().RoleBindings("default").Create(ctx, binding("all", "Role", "all", "ann"),
		createOpts))
	require.Value[*rbacv1.ClusterRole](t)(root.RbacV1().ClusterRoles().Create(ctx,
		clusterRole("list", rule("list", "probe.example.com", "things")), createOpts))
	require.Value[*rbacv1.ClusterRoleBinding](t)(root.RbacV1().ClusterRoleBindings().Create(ctx,
		clusterBinding("list", "list", "ann"), createOpts))
	return plane, admin, ann
}

// CVE-2019-11247: a user with all rights on a group's resources in a namespace could reach
// cluster-scoped ones by a path with that namespace.
func TestClusterScopedResourcesInNamespacePaths(t *testing.T) {
	plane, admin, ann := probed(t)
	for _, path := range []string{"/globals", "/globals/hidden", "/globals/hidden/status",
		"/globals?watch=1&timeoutSeconds=1"} {
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "POST"} {
			for _, who := range []user.Info{admin, ann} {
				code, answer := ask(t, plane, who, method, "/apis/probe.example.com/v1/namespaces/default"+path, "{}")
				if code != http.StatusNotFound && code != http.StatusForbidden && code != http.StatusMethodNotAllowed ||
					strings.Contains(answer, `"kind":"Global"`) {
					t.Errorf("%s %s as %s: %d %s", method, path, who.GetName(), code, answer)
				}
			}
		}
	}
	if code, _ := ask(t, plane, ann, "GET", "/apis/probe.example.com/v1/globals/hidden",
		""); code != http.StatusForbidden {
		t.Errorf("without the namespace: %d", code)
	}
	if code, _ := ask(t, plane, admin, "GET", "/apis/probe.example.com/v1/globals/hidden", ""); code != http.StatusOK {
		t.Errorf("the cluster-scoped object: %d", code)
	}
}

// CVE-2022-3162: a user who may list one custom resource could read another one of the group by a
// name with dots and slashes; the same with ".." as a namespace.
func TestNamesDoNotTraversePaths(t *testing.T) {
	plane, _, ann := probed(t)
	leak := func(answer string) bool { return strings.Contains(answer, `"name":"hidden"`) }
	for _, path := range []string{
		"/apis/probe.example.com/v1/things?fieldSelector=metadata.name%3D../../others/default/hidden",
		"/apis/probe.example.com/v1/things?fieldSelector=metadata.name%3D..%2F..%2Fothers%2Fdefault%2Fhidden",
		"/apis/probe.example.com/v1/namespaces/default/things?fieldSelector=metadata.name%3D../../others/default/hidden",
		"/apis/probe.example.com/v1/namespaces/default/things?fieldSelector=metadata.name%3D../kube-system/hidden",
		"/apis/probe.example.com/v1/namespaces/default/things/..%2F..%2Fothers%2Fdefault%2Fhidden",
		"/apis/probe.example.com/v1/namespaces/default/things/..%2Fkube-system%2Fhidden",
		"/apis/probe.example.com/v1/namespaces/default/../kube-system/things/hidden",
		"/apis/probe.example.com/v1/namespaces/../things",
		"/apis/probe.example.com/v1/namespaces/%2E%2E/things",
		"/apis/probe.example.com/v1/namespaces/default%2F..%2Fkube-system/things/hidden",
		"/api/v1/namespaces/%2E%2E/secrets",
		"/api/v1/namespaces/default/..%2Fkube-system%2Fsecrets",
		"/api/v1/namespaces/..%2Fkube-system/secrets/hidden",
		"/apis/probe.example.com/v1/namespaces/default/things?continue=" +
			"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vb3RoZXJzLyJ9",
	} {
		if code, answer := ask(t, plane, ann, "GET", path, ""); leak(answer) {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	// Make sure that ann can read something, so that the requests above could have succeeded.
	if code, answer := ask(t, plane, ann, "GET", "/apis/probe.example.com/v1/namespaces/default/things",
		""); code != http.StatusOK || !strings.Contains(answer, `"name":"mine"`) {
		t.Errorf("%d %s", code, answer)
	}
	if _, answer := ask(t, plane, ann, "GET", "/apis/probe.example.com/v1/things", ""); !leak(answer) {
		t.Errorf("the list over all namespaces lacks objects that ann may read: %s", answer)
	}
	// Objects with such names can't be created.
	for _, name := range []string{"..", ".", "a/b", "../x", "a%2Fb"} {
		body := fmt.Sprintf(`{"apiVersion":"probe.example.com/v1","kind":"Thing","metadata":{"name":%q}}`, name)
		if code, answer := ask(t, plane, ann, "POST", "/apis/probe.example.com/v1/namespaces/default/things",
			body); code != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d %s", name, code, answer)
		}
	}
}

// CVE-2022-3172: an aggregated server redirected clients to other hosts. TestBackendRedirects has
// such a server. Here, the group's server is unavailable, and no API response may be a redirect.
func TestNoRedirects(t *testing.T) {
	plane, admin, _ := probed(t)
	service := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.elsewhere.example.com"},
		"spec":{"group":"elsewhere.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,
		"service":{"namespace":"default","name":"kubernetes"}}}`
	if code, answer := ask(t, plane, admin, "POST", "/apis/apiregistration.k8s.io/v1/apiservices",
		service); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	for _, path := range []string{
		"/apis/elsewhere.example.com/v1", "/apis/elsewhere.example.com/v1/things",
		"/apis/elsewhere.example.com/v1/namespaces/default/things/x",
		"/api/", "/api//v1", "/apis//", "//api/v1/pods", "/api/v1/namespaces/default/pods/", "/version/",
		"/openapi/v3/",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if code, _ := ask(t, plane, admin, method, path, ""); code >= 300 && code < 400 &&
				code != http.StatusNotModified {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
}
