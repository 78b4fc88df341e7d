package console_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/internal/require"
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
		c, err := cluster.New(&rest.Config{Host: server.URL + prefix}, nil)
		require.NoError(t, err)
		for _, tt := range []struct {
			kind            cluster.Kind
			namespace, name string
			want            string
		}{
			{cluster.Kind{Version: "v1", Resource: "pods", Namespaced: true}, "default", "web",
				"/api/v1/namespaces/default/pods/web"},
			{cluster.Kind{Version: "v1", Resource: "pods", Namespaced: true}, "", "", "/api/v1/pods"},
			{cluster.Kind{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "", "system:node",
				"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"},
			{cluster.Kind{Version: "v1", Resource: "pods", Namespaced: true}, "default", "a/b?c#d%2e",
				"/api/v1/namespaces/default/pods/a%2Fb%3Fc%23d%252e"},
			{cluster.Kind{Version: "v1", Resource: "pods", Namespaced: true}, "default", "..", ""},
			{cluster.Kind{Version: "v1", Resource: "pods", Namespaced: true}, ".", "x", ""},
		} {
			got = ""
			resp, err := c.Do(t.Context(), cluster.Request{Path: tt.kind.Path(tt.namespace, tt.name)})
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
