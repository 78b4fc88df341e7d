package filters_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/filters"
	"kelson.dev/internal/require"
)

// The cost of the pipeline before the handler of a small GET, and of a whole small GET over HTTPS
// with an empty handler.
func BenchmarkBeforeDispatch(b *testing.B) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	all := func(*request.RequestInfo) bool { return true }
	c := filters.New(filters.Config{Resources: answer, Authorizer: authz.Masters(), Metrics: prometheus.NewRegistry(),
		Serves: all})
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	ctx := filters.WithUser(context.Background(), ann)
	const path = "/api/v1/namespaces/default/configmaps/c"
	alone := func(c *filters.Chain) func(*testing.B) {
		return func(b *testing.B) {
			req := httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx)
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				c.ServeHTTP(w, req)
			}
		}
	}
	b.Run("chain", alone(c))
	b.Run("chain without metrics", alone(filters.New(filters.Config{Resources: answer, Authorizer: authz.Masters()})))
	overHTTPS := func(h http.Handler) func(*testing.B) {
		return func(b *testing.B) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				h.ServeHTTP(w, req.WithContext(filters.WithUser(req.Context(), ann)))
			}))
			server.EnableHTTP2 = true
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS13
			b.ReportAllocs()
			for b.Loop() {
				resp, err := client.Get(server.URL + path)
				require.NoError(b, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
	b.Run("HTTPS with the chain", overHTTPS(c))
	b.Run("HTTPS without", overHTTPS(answer))
}

// discard is a ResponseWriter that discards everything.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
