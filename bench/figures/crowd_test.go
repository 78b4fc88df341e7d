package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"kelson.dev/internal/assert"
)

// Watchers receive all events from a server that ends its watches after three events each, and once
// responds that it is too busy.
func TestWatchersResume(t *testing.T) {
	const writes = 10
	var asked atomic.Int64
	peer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if asked.Add(1) == 2 {
			http.Error(w, "later", http.StatusTooManyRequests)
			return
		}
		after, _ := strconv.Atoi(req.URL.Query().Get("resourceVersion"))
		for i := after; i < min(after+3, writes); i++ {
			fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"seen-%06d","resourceVersion":"%d"}}}`+"\n", i,
				i+1)
		}
	}))
	defer peer.Close()
	c := (&server{urls: []string{peer.URL}, tls: peer.Client().Transport.(*http.Transport).TLSClientConfig}).client(false)
	defer c.transport.CloseIdleConnections()
	crowd := &crowd{path: "/?watch=1", prefix: "seen-", writes: writes, bufSize: 4 << 10}
	crowd.ready.Add(1)
	s := crowd.watch(t.Context(), c)
	if s.err != nil || s.events != writes || s.resumed != 4 {
		t.Fatalf("%d of %d events, resumed %d times: %v", s.events, writes, s.resumed, s.err)
	}
}

// A watcher fails if the server has compacted the events after its revision, or sends an event
// twice.
func TestWatchersGiveUp(t *testing.T) {
	for answer, want := range map[string]string{
		`{"type":"ERROR","object":{"kind":"Status","code":410}}` +
			"\n": `"code":410`,
		strings.Repeat(`{"type":"ADDED","object":{"metadata":{"name":"seen-000001","resourceVersion":"7"}}}`+"\n",
			2): "revision 7 after 7",
	} {
		peer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, answer)
		}))
		c := (&server{urls: []string{peer.URL}, tls: peer.Client().Transport.(*http.Transport).TLSClientConfig}).client(false)
		crowd := &crowd{path: "/?watch=1", prefix: "seen-", writes: 3, bufSize: 4 << 10}
		crowd.ready.Add(1)
		s := crowd.watch(t.Context(), c)
		assert.ErrorContains(t, s.err, want)
		c.transport.CloseIdleConnections()
		peer.Close()
	}
}

// The report shows a failed row in the table and below it, and still shows the other rows.
func TestFailedRows(t *testing.T) {
	r := &results{table: &alone}
	r.set(0, "list-cr", figure{failure: errors.New("no answer")})
	r.set(1, "list-cr", figure{measured: true, value: 1e6})
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{"failed", "1ms", "Failed: list-cr of kube-apiserver + etcd: no answer"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("missing %q in\n%s", want, out.String())
		}
	}
	if !r.whole() {
		t.Error("a failed row of the peer counts as a failure of Kelson")
	}
	if r.set(3, "list-cr", figure{failure: errors.New("no answer")}); r.whole() {
		t.Error("a failed row of Kelson is not reported")
	}
}
