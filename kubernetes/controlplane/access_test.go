package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/authz"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Access over HTTPS with client certificates: each authorization mode allows its requests, in
// order; requests that no mode allows are refused; reviews agree; and objects that a plugin rejects
// are not stored.
func TestAccessOverHTTPS(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status.Allowed, review.Status.Denied = review.Spec.User == "wendy", review.Spec.User == "eve"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	dir := t.TempDir()
	policies, kubeconfig := filepath.Join(dir, "policies"), filepath.Join(dir, "kubeconfig")
	write(t, policies, []byte(`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"abel","namespace":"default","resource":"secrets","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"eve","namespace":"*","resource":"*","apiGroup":"*"}}
`))
	write(t, kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, hook.URL))
	s := onPort(t, controlplane.Config{
		Authorization: controlplane.Authorization{
			Modes: []string{"Node", "RBAC", "Webhook", "ABAC"}, PolicyFile: policies,
			Webhook: authz.Webhook{ConfigFile: kubeconfig, Version: "v1"},
		},
		Admission: controlplane.Admission{Enable: []string{"NodeRestriction"}},
	})
	root := s.browser(t, "root", user.SystemPrivilegedGroup)
	const (
		asJSON  = "application/json"
		secrets = "/api/v1/namespaces/default/secrets"
		roles   = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	)
	ask := func(who, groups, method, path, body string, want int) {
		t.Helper()
		c := root
		if who != "root" {
			c = s.browser(t, who, strings.Fields(groups)...)
		}
		if code := s.code(t.Context(), c, method, path, asJSON, strings.NewReader(body)); code != want {
			t.Errorf("%s: %s %s: %d, want %d", who, method, path, code, want)
		}
	}
	for path, body := range map[string]string{
		secrets:         `{"metadata":{"name":"a"}}`,
		"/api/v1/nodes": `{"metadata":{"name":"n2"}}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": `{"metadata":{"name":"limited"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["a"]},
			{"verbs":["get"],"nonResourceURLs":["/metrics"]},{"verbs":["create"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"]}]}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": `{"metadata":{"name":"limited"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"limited"},
			"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"ann"}]}`,
	} {
		ask("root", "", "POST", path, body, http.StatusCreated)
	}

	ask("stranger", "", "GET", secrets+"/a", "", http.StatusForbidden)
	ask("ann", "", "GET", secrets+"/a", "", http.StatusOK) // RBAC, by name
	ask("ann", "", "GET", secrets+"/b", "", http.StatusForbidden)
	ask("ann", "", "GET", secrets, "", http.StatusForbidden)
	ask("ann", "", "GET", "/metrics", "", http.StatusOK) // and by path
	ask("stranger", "", "GET", "/metrics", "", http.StatusForbidden)
	ask("wendy", "", "GET", secrets, "", http.StatusOK) // allowed by the webhook
	// denied by the webhook; ABAC can't override it
	ask("eve", "", "GET", secrets, "", http.StatusForbidden)
	ask("abel", "", "GET", secrets+"/a", "", http.StatusOK) // ABAC
	ask("abel", "", "DELETE", secrets+"/a", "", http.StatusForbidden)

	// Node allows what a node's pods use, and admission lets a node change only its own object.
	const node, nodes = "system:node:n1", "system:nodes"
	ask(node, nodes, "GET", secrets+"/a", "", http.StatusForbidden)
	ask("root", "", "POST", "/api/v1/namespaces/default/pods",
		`{"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i","envFrom":[{"secretRef":{"name":"a"}}]}]}}`, http.StatusCreated)
	ask(node, nodes, "GET", secrets+"/a", "", http.StatusOK)
	ask(node, nodes, "POST", "/api/v1/nodes", `{"metadata":{"name":"n1"}}`, http.StatusCreated)
	ask(node, nodes, "POST", "/api/v1/nodes", `{"metadata":{"name":"n3"}}`, http.StatusForbidden)
	ask("root", "", "GET", "/api/v1/nodes/n3", "", http.StatusNotFound)

	// Users can't grant rights that they lack.
	ask("ann", "", "POST", roles, `{"metadata":{"name":"own"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["a"]}]}`, http.StatusCreated)
	ask("ann", "", "POST", roles, `{"metadata":{"name":"more"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`, http.StatusForbidden)

	// Reviews agree; users without permission can't ask about others.
	review := func(who, secret string, want int) {
		t.Helper()
		ask(who, "", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			fmt.Sprintf(`{"spec":{"user":"ann","resourceAttributes":{"verb":"get","resource":"secrets","namespace":"default","name":%q}}}`, secret), want)
	}
	review("root", "a", http.StatusCreated)
	review("ann", "a", http.StatusForbidden)
	for secret, want := range map[string]bool{"a": true, "b": false} {
		for _, kind := range []string{"selfsubjectaccessreviews", "subjectaccessreviews",
			"namespaces/default/localsubjectaccessreviews"} {
			c, body := s.browser(t, "ann"), `"resourceAttributes":{"verb":"get","resource":"secrets","namespace":"default","name":"`+secret+`"}`
			if !strings.HasPrefix(kind, "self") {
				c, body = root, body+`,"user":"ann","groups":["system:authenticated"]`
			}
			resp, err := c.Post(s.url+"/apis/authorization.k8s.io/v1/"+kind, asJSON,
				strings.NewReader(`{"spec":{`+body+`}}`))
			require.NoError(t, err)
			var answer authorizationv1.SubjectAccessReview
			err = json.NewDecoder(resp.Body).Decode(&answer)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusCreated || answer.Status.Allowed != want {
				t.Errorf("%s of %s: %s %v %v", kind, secret, resp.Status, answer.Status, err)
			}
		}
	}

	// Impersonation requires the verb impersonate.
	for who, want := range map[string]string{"root": "ann", "ann": "403 Forbidden"} {
		groups := map[string][]string{"root": {user.SystemPrivilegedGroup}}[who]
		if got := s.who(t, certified(t, s.ca, who, groups...), "Impersonate-User: ann"); got != want {
			t.Errorf("%s as ann: %q, want %q", who, got, want)
		}
	}
}
