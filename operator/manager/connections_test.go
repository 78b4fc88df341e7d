package manager_test

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/operator/manager"
)

// RUN-03: with real connections, no connections and goroutines of a disengaged cluster remain,
// whether its server responds or not.
func TestConnectionsAreReleased(t *testing.T) {
	f := newFleet(t, manager.Config{}, nil)
	stop := f.start(t)
	defer stop()
	<-f.Elected()
	proxy := &httputil.ReverseProxy{
		Transport: newServer(t, "a"), FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Host = "apitest" },
	}
	var asked sync.Map
	silent := func(_ http.ResponseWriter, r *http.Request) {
		asked.Store("silent", true)
		<-r.Context().Done()
	}
	var open atomic.Int32 // connections
	var servers []*httptest.Server
	for _, h := range []http.Handler{proxy, http.HandlerFunc(silent)} {
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
		servers = append(servers, s)
	}
	for range 3 {
		for _, s := range servers {
			_, err := f.Engage("east", &rest.Config{Host: s.URL})
			must(t, err)
			eventually(t, "no request to the cluster", func() bool {
				if _, ok := asked.LoadAndDelete("silent"); ok {
					return true
				}
				return slices.Contains(f.visits(), "east:a")
			})
			must(t, f.Disengage("east"))
		}
	}
	eventually(t, "connections are left", func() bool { return open.Load() == 0 })
	buf := make([]byte, 1<<20)
	eventually(t, "goroutines are left", func() bool { return !bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("manager.(*Cluster).run")) })
}

// eventually waits until a condition holds, with a long timeout for busy machines.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error(what)
}
