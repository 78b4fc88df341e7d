package console_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"kelson.dev/console"
	"kelson.dev/internal/require"
)

// If the cluster or the console's own server becomes unreachable, the views show the reason, and
// that what they show is old, and not that everything has settled.
func TestUnreachableCluster(t *testing.T) {
	chromium(t)
	server := emptyCluster()
	b := open(t, start(t, console.Config{Cluster: &rest.Config{Host: server.URL}, Name: "test"}))
	b.shows("Everything has settled.")
	server.Listener.Close()
	server.CloseClientConnections()
	b.until(`/connection refused/.test(document.querySelector('[role=alert]')?.innerText) && !document.querySelector('main').innerText.includes('settled')`)
	b.until(`/known at \d\d:\d\d:\d\d/.test(document.querySelector('.problem.old')?.innerText)`)
	b.goTo("/map")
	b.until(`[...document.querySelectorAll('.pairs dt')].some((d) => d.innerText === 'pods' && d.nextElementSibling.innerText.includes('connection refused'))`)
}

func TestUnreachableConsole(t *testing.T) {
	chromium(t)
	server := emptyCluster()
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c, err := console.New(console.Config{Cluster: &rest.Config{Host: server.URL}, Name: "test", Listener: listener})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	b := open(t, c)
	b.shows("Everything has settled.")
	stop()
	<-ended
	b.until(`/does not answer[^]*known at/.test(document.querySelector('.problem.old')?.innerText) && !document.querySelector('main').innerText.includes('settled')`)
}

// emptyCluster returns an API server with pods, of which there are none.
func emptyCluster() *httptest.Server {
	respond := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/version":
			respond(w, map[string]any{"gitVersion": "v1.2.3"})
		case r.URL.Path == "/api":
			respond(w, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
		case r.URL.Path == "/apis":
			respond(w, map[string]any{"kind": "APIGroupList", "groups": []any{}})
		case r.URL.Path == "/api/v1":
			respond(w, map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
				map[string]any{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": []string{"list", "watch"}},
			}})
		case r.URL.Query().Get("watch") == "true":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			respond(w, map[string]any{"kind": "PodList", "apiVersion": "v1",
				"metadata": map[string]any{"resourceVersion": "5"}, "items": []any{}})
		}
	}))
}
