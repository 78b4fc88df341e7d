package manager

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A web page whose name resolves to the loopback address, or that sends requests to it, cannot read
// what is served without authentication.
func TestNotRebound(t *testing.T) {
	const loopback, other = "127.0.0.1", "10.1.2.3"
	h := rejectRebinding(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range []struct {
		local, host, method, origin string
		want                        int
	}{
		{loopback, "localhost:8090", "GET", "", 200},
		{loopback, "LOCALHOST.", "GET", "", 200},
		{loopback, "kelson.localhost:8090", "GET", "", 200},
		{loopback, "127.0.0.1:8090", "GET", "", 200},
		{loopback, "127.0.0.1", "GET", "", 200},
		{loopback, "[::1]:8090", "GET", "", 200},
		{"::1", "[::1]", "GET", "", 200},
		{loopback, "evil.example:8090", "GET", "", 403},
		{loopback, "evil.example", "GET", "", 403},
		{loopback, "127.0.0.1.evil.example:8090", "GET", "", 403},
		{loopback, "localhost.evil.example", "GET", "", 403},
		{loopback, "notlocalhost", "GET", "", 403},
		{loopback, "", "GET", "", 403},
		{"::1", "evil.example", "GET", "", 403},
		{other, "metrics.operator.svc:8090", "GET", "", 200}, // in a cluster
		{other, "10.1.2.3:8090", "GET", "", 200},
		{loopback, "localhost:8090", "POST", "http://evil.example", 403},
		{loopback, "localhost:8090", "POST", "http://localhost:8090", 200},
	} {
		req := httptest.NewRequest(test.method, "/", nil)
		req.Host = test.host
		if test.origin != "" {
			req.Header.Set("Origin", test.origin)
		}
		local := &net.TCPAddr{IP: net.ParseIP(test.local), Port: 8090}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, net.Addr(local))))
		if w.Code != test.want {
			t.Errorf("%s %q at %s, origin %q: %d, want %d", test.method, test.host, test.local, test.origin, w.Code,
				test.want)
		}
	}
}
