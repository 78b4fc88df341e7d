package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// A name is a segment of the path, and can't lead to another object.
func TestPaths(t *testing.T) {
	got := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.EscapedPath()
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	for _, prefix := range []string{"", "/clusters/a", "/clusters/a/"} {
		c, err := New(&rest.Config{Host: server.URL + prefix}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			kind            Kind
			namespace, name string
			want            string
		}{
			{Kind{Version: "v1", Resource: "pods", Namespaced: true}, "default", "web",
				"/api/v1/namespaces/default/pods/web"},
			{Kind{Version: "v1", Resource: "pods", Namespaced: true}, "", "", "/api/v1/pods"},
			{Kind{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "", "system:node",
				"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"},
			{Kind{Version: "v1", Resource: "pods", Namespaced: true}, "default", "a/b?c#d%2e",
				"/api/v1/namespaces/default/pods/a%2Fb%3Fc%23d%252e"},
			{Kind{Version: "v1", Resource: "pods", Namespaced: true}, "default", "..", ""},
			{Kind{Version: "v1", Resource: "pods", Namespaced: true}, ".", "x", ""},
		} {
			got = ""
			resp, err := c.Do(t.Context(), Request{Path: tt.kind.Path(tt.namespace, tt.name)})
			if err == nil {
				resp.Body.Close()
			}
			want := tt.want
			if want != "" && prefix != "" {
				want = "/clusters/a" + want
			}
			if got != want || (err != nil) != (tt.want == "") {
				t.Errorf("%q: %s/%s: got %s, %v, want %s", prefix, tt.namespace, tt.name, got, err, want)
			}
		}
	}
}
