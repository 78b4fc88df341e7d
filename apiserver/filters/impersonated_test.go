package filters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/filters"
	"kelson.dev/internal/assert"
)

// whoami responds with the user of the request, and checks that no impersonation header remains.
var whoami = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
	u, _ := request.UserFrom(req.Context())
	json.NewEncoder(w).Encode([]any{u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra()})
	for name := range req.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			fmt.Fprintln(w, "left:", name)
		}
	}
})

// rights allows the listed requests, "verb group/resource[/subresource] [namespace/]name", and
// every request without impersonation.
type rights map[string]bool

func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !strings.HasPrefix(a.GetVerb(), "impersonate") {
		return authorizer.DecisionAllow, "", nil
	}
	name, what := a.GetName(), a.GetAPIGroup()+"/"+a.GetResource()
	if a.GetNamespace() != "" {
		name = a.GetNamespace() + "/" + name
	}
	if a.GetSubresource() != "" {
		what += "/" + a.GetSubresource()
	}
	if r[a.GetVerb()+" "+what+" "+name] {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// A user may impersonate only what the authorizer grants: names, groups, UIDs and extra fields, or
// single verbs with constrained impersonation. A revoked permission ends with the next request.
func TestImpersonation(t *testing.T) {
	granted := rights{
		"impersonate /users ann":                                      true,
		"impersonate /groups ops":                                     true,
		"impersonate authentication.k8s.io/uids 7":                    true,
		"impersonate authentication.k8s.io/userextras/scopes read":    true,
		"impersonate /serviceaccounts ns/robot":                       true,
		"impersonate /users system:anonymous":                         true,
		"impersonate-on:user-info:list /pods x/":                      true,
		"impersonate:user-info authentication.k8s.io/users eve":       true,
		"impersonate:arbitrary-node authentication.k8s.io/nodes n1":   true,
		"impersonate-on:arbitrary-node:list /pods x/":                 true,
		"impersonate:user-info authentication.k8s.io/users unlimited": true,
	}
	c := filters.New(filters.Config{Resources: whoami, Authorizer: granted})
	get := func(path string, headers ...string) (int, string) {
		req := httptest.NewRequest("GET", path, nil)
		req = req.WithContext(filters.WithUser(req.Context(), &user.DefaultInfo{Name: "bob"}))
		for i := 0; i < len(headers); i += 2 {
			req.Header.Add(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	const pods = "/api/v1/namespaces/x/pods"
	for _, want := range []struct {
		name    string
		headers []string
		code    int
		body    string // a part of it
	}{
		{"nobody", nil, 200, `["bob","",["system:authenticated"],null]`},
		{"user", []string{"Impersonate-User", "ann"}, 200, `["ann","",["system:authenticated"],null]`},
		{"all fields", []string{"Impersonate-User", "ann", "Impersonate-Group", "ops", "Impersonate-Uid", "7",
			"Impersonate-Extra-Scopes", "read"}, 200,
			`["ann","7",["ops","system:authenticated"],{"scopes":["read"]}]`},
		{"service account", []string{"Impersonate-User", "system:serviceaccount:ns:robot"}, 200,
			`["system:serviceaccount:ns:robot","",["system:serviceaccounts","system:serviceaccounts:ns","system:authenticated"],null]`},
		{"anonymous", []string{"Impersonate-User", "system:anonymous"}, 200,
			`["system:anonymous","",["system:unauthenticated"],null]`},
		{"constrained", []string{"Impersonate-User", "eve"}, 200, `["eve","",["system:authenticated"],null]`},
		{"node", []string{"Impersonate-User", "system:node:n1"}, 200,
			`["system:node:n1","",["system:nodes","system:authenticated"],null]`},

		{"another user", []string{"Impersonate-User", "root"}, 403,
			`User \"bob\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope`},
		{"another group", []string{"Impersonate-User", "ann", "Impersonate-Group", "system:masters"}, 403, `forbidden`},
		{"another uid", []string{"Impersonate-User", "ann", "Impersonate-Uid", "8"}, 403, `forbidden`},
		{"another extra", []string{"Impersonate-User", "ann", "Impersonate-Extra-Scopes", "write"}, 403, `forbidden`},
		{"another service account", []string{"Impersonate-User", "system:serviceaccount:kube-system:robot"}, 403,
			`cannot impersonate-on:serviceaccount:list resource \"pods\"`},
		{"group alone", []string{"Impersonate-Group", "ops"}, 400, `without impersonating a user name`},
		{"extra alone", []string{"Impersonate-Extra-Scopes", "read"}, 400, `without impersonating a user name`},
		{"empty user", []string{"Impersonate-User", "", "Impersonate-Group", "ops"}, 400,
			`without impersonating a user name`},
	} {
		code, body := get(pods, want.headers...)
		if code != want.code || !strings.Contains(body, want.body) || code == 200 && body != want.body {
			t.Errorf("%s: %d %s", want.name, code, body)
		}
	}
	// A permission on one object does not extend to another.
	code, body := get("/api/v1/namespaces/y/pods", "Impersonate-User", "eve")
	assert.Equalf(t, code, 403, "%s", body)
	// Revoking a permission takes effect with the next request.
	delete(granted, "impersonate:user-info authentication.k8s.io/users eve")
	code, body = get(pods, "Impersonate-User", "eve")
	assert.Equalf(t, code, 403, "%s", body)
}
