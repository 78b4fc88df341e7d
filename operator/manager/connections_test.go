package manager_test

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
)

// With real connections, no connections and goroutines of a disengaged cluster remain, whether its
// server responds or not.
func TestConnectionsAreReleased(t *testing.T) {
	f := newFleet(t, manager.Config{}, nil)
	stop := f.start(t)
	defer stop()
	<-f.Elected()
	var asked sync.Map
	silent := func(_ http.ResponseWriter, r *http.Request) {
		asked.Store("silent", true)
		<-r.Context().Done()
	}
	var open atomic.Int32
	servers := []*httptest.Server{listening(t, proxied(newServer(t, "a")), &open),
		listening(t, http.HandlerFunc(silent), &open)}
	for range 3 {
		for _, s := range servers {
			_, err := f.Engage("east", &rest.Config{Host: s.URL})
			must(t, err)
			require.Eventually(t, "no request to the cluster", func() bool {
				if _, ok := asked.LoadAndDelete("silent"); ok {
					return true
				}
				return slices.Contains(f.visits(), "east:a")
			})
			must(t, f.Disengage("east"))
		}
	}
	require.Eventually(t, "connections are left", func() bool { return open.Load() == 0 })
	buf := make([]byte, 1<<20)
	require.Eventually(t, "goroutines are left", func() bool {
		return !bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("manager.(*Cluster).run"))
	})
}

// No connections remain after a manager has ended.
func TestConnectionsOfAManager(t *testing.T) {
	var open atomic.Int32
	s := listening(t, proxied(newServer(t, "a")), &open)
	m, err := manager.New(manager.Config{REST: &rest.Config{Host: s.URL}, Name: "test",
		Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	stop := require.Running(t, m.Run)
	_, err = client.List[corev1.ConfigMap](t.Context(), m.Client())
	must(t, err)
	must(t, m.LiveClient().Create(t.Context(), configMap("b")))
	stop()
	require.Eventually(t, "connections are left", func() bool { return open.Load() == 0 })
}

func proxied(to http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Transport: to, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Host = "apitest" },
	}
}

// listening starts a server that counts its open connections.
func listening(t *testing.T, h http.Handler, open *atomic.Int32) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}
