package filters_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/filters"
)

// The labels of a request. Those of a resource need an authorized client and a resource that is
// served.
func TestLabels(t *testing.T) {
	long := strings.Repeat("x", 254)
	c := filters.New(filters.Config{
		Metrics: prometheus.NewRegistry(),
		Serves:  func(info *request.RequestInfo) bool { return info.Resource == "pods" || info.Resource == long },
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision,
			string, error) {
			if a.GetUser().GetName() == "ann" {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionDeny, "", nil
		}),
		Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			code, _ := strconv.Atoi(req.URL.Query().Get("code"))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
		}),
	})
	serve := func(method, path, name string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, path, nil)
		req = req.WithContext(filters.WithUser(req.Context(), &user.DefaultInfo{Name: name}))
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req)
		return w
	}
	for _, test := range []struct{ name, method, path, want string }{
		{"ann", "GET", "/api/v1/namespaces/x/pods?code=200",
			`code="200" dry_run="" group="" resource="pods" scope="namespace" subresource="" verb="LIST" version="v1"`},
		{"ann", "DELETE", "/api/v1/namespaces/x/pods?code=201",
			`code="201" dry_run="" group="" resource="pods" scope="namespace" subresource="" verb="DELETECOLLECTION" version="v1"`},
		{"ann", "POST", "/apis/g/v1/pods?dryRun=All&code=202",
			`code="202" dry_run="All" group="g" resource="pods" scope="resource" subresource="" verb="POST" version="v1"`},
		{"ann", "POST", "/apis/g/v1/pods?dryRun=other&code=203",
			`code="203" dry_run="invalid" group="g" resource="pods" scope="resource" subresource="" verb="POST" version="v1"`},
		{"ann", "PUT", "/api/v1/namespaces/x/pods/p?code=403",
			`code="403" dry_run="" group="" resource="pods" scope="resource" subresource="" verb="PUT" version="v1"`},
		{"ann", "INVENTED", "/api/v1/pods?code=405",
			`code="405" dry_run="" group="" resource="pods" scope="cluster" subresource="" verb="other" version="v1"`},
		{"ann", "GET", "/api/v1/namespaces/x/pods/p?code=299",
			`code="200" dry_run="" group="" resource="pods" scope="resource" subresource="" verb="GET" version="v1"`},
		{"ann", "GET", "/api/v1/namespaces/x/pods/p?code=999",
			`code="500" dry_run="" group="" resource="pods" scope="resource" subresource="" verb="GET" version="v1"`},
		// Resources that are not served, and requests that are not authorized.
		{"ann", "GET", "/api/v1/namespaces/x/invented?code=404",
			`code="404" dry_run="" group="" resource="" scope="" subresource="" verb="LIST" version=""`},
		{"ann", "PATCH", "/apis/invented/v1/invented/x/invented?code=415",
			`code="415" dry_run="" group="" resource="" scope="" subresource="" verb="PATCH" version=""`},
		{"ann", "PUT", "/api/v1/" + long + "/x?code=406",
			`code="406" dry_run="" group="" resource="" scope="" subresource="" verb="PUT" version=""`},
		{"bob", "DELETE", "/api/v1/namespaces/x/pods/p?code=200",
			`code="403" dry_run="" group="" resource="" scope="" subresource="" verb="DELETE" version=""`},
	} {
		serve(test.method, test.path, test.name)
		line := "apiserver_request_total{" + strings.ReplaceAll(strings.Replace(test.want, `" dry_run`,
			`" component="apiserver" dry_run`, 1), `" `, `",`) + "} 1"
		if text := serve("GET", "/metrics", "ann").Body.String(); !strings.Contains(text, line) {
			t.Errorf("%s %s as %s: no %s", test.method, test.path, test.name, line)
			for got := range strings.Lines(text) {
				if strings.HasPrefix(got, "apiserver_request_total") {
					t.Log(strings.TrimSpace(got))
				}
			}
		}
	}
	if text := serve("GET", "/metrics", "ann").Body.String(); strings.Contains(text, "invented") ||
		strings.Contains(text, long) {
		t.Error("a name that a client invented became a label")
	}
}
