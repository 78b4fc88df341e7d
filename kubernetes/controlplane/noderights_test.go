package controlplane_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// A node gets 403 for everything that Kubernetes' rules for nodes do not grant: every verb on every
// resource and subresource that is served, by name or as a collection.
func TestRightsOfNodes(t *testing.T) {
	plane := start(t, controlplane.Config{
		Controllers: controlplane.NoControllers{}, Admission: controlplane.Admission{Enable: []string{"NodeRestriction"}},
	})
	node := &user.DefaultInfo{Name: "system:node:a", Groups: []string{user.NodesGroup, user.AllAuthenticated}}
	client := &http.Client{Transport: plane.TransportAs(node)}

	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(plane.RESTConfig()).ServerGroupsAndResources()
	require.NoError(t, err)
	// Other tests check the permissions of all authenticated users.
	open := map[string]bool{"selfsubjectreviews": true, "selfsubjectaccessreviews": true,
		"selfsubjectrulesreviews": true}
	refused, granted := 0, 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, res := range list.APIResources {
			if open[res.Name] {
				continue
			}
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete",
				"deletecollection"} {
				resource, subresource, _ := strings.Cut(res.Name, "/")
				if subresource != "" && (verb == "list" || verb == "watch" || verb == "deletecollection") {
					continue // subresources have no collections
				}
				asked := authorizer.AttributesRecord{
					User: node, Verb: verb, ResourceRequest: true, APIGroup: gv.Group, APIVersion: gv.Version,
					Resource: resource, Subresource: subresource, Name: "b",
				}
				if rulesAllow(asked) {
					granted++
					continue
				}
				code, text := tryVerb(t, client, verb, gv, res.Name, res.Namespaced)
				// If a resource lacks a verb, a request by name gets 405 only after authorization.
				if code != http.StatusForbidden {
					t.Errorf("%s %s of %s: %d, want 403: %.200s", verb, res.Name, gv, code, text)
				}
				refused++
			}
		}
	}
	if refused < 500 || granted < 40 {
		t.Errorf("%d requests refused, %d granted by rules: the resources were not listed", refused, granted)
	}
}

func rulesAllow(asked authorizer.AttributesRecord) bool {
	rules := bootstrappolicy.NodeRules()
	for i := range rules {
		if rbac.RuleAllows(asked, &rules[i]) {
			return true
		}
	}
	return false
}

// tryVerb makes the request of a verb on an object or collection and returns the code and body of
// its response.
func tryVerb(t *testing.T, client *http.Client, verb string, gv schema.GroupVersion, resource string,
	namespaced bool) (int, string) {
	t.Helper()
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	if namespaced {
		path += "/namespaces/default"
	}
	resource, subresource, _ := strings.Cut(resource, "/")
	path += "/" + resource
	if verb != "list" && verb != "watch" && verb != "deletecollection" && (verb != "create" || subresource != "") {
		path += "/b"
	}
	if subresource != "" {
		path += "/" + subresource
	}
	method := map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE",
		"deletecollection": "DELETE"}[verb]
	if method == "" {
		method = "GET"
	}
	if verb == "watch" {
		path += "?watch=1&timeoutSeconds=1"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://kelson"+path, bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	req.Header.Set("Content-Type", map[string]string{"PATCH": "application/merge-patch+json"}[method])
	resp, err := client.Do(req)
	require.NoError(t, err)
	text := require.Body(t, resp)
	return resp.StatusCode, string(text)
}
