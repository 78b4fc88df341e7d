package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// The transport settings of a rest.Config take effect.
func TestTransport(t *testing.T) {
	var seen http.Header
	var path string
	server := apitest.New()
	server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		seen, path = r.Header, r.URL.Path
		return false
	}})
	conf := server.REST()
	conf.Host = "https://proxy.example.com/clusters/one/"
	conf.BearerToken = "secret"
	conf.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"ops"}}
	conf.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Wrapped", "yes")
			return next.RoundTrip(r)
		})
	})
	c, err := client.New(client.Config{REST: conf, UserAgent: "tests/1"})
	must(t, err)
	_ = c.Create(t.Context(), pod("web"))
	for name, want := range map[string]string{
		"Authorization": "Bearer secret", "Impersonate-User": "jane", "Impersonate-Group": "ops", "Wrapped": "yes",
		"User-Agent": "tests/1",
	} {
		assert.Equalf(t, seen.Get(name), want, "%s", name)
	}
	if !strings.HasPrefix(path, "/clusters/one/api/v1") {
		t.Errorf("path %s", path)
	}
	if _, err := client.New(client.Config{}); err == nil {
		t.Error("no error without a configuration")
	}
}

// silence is a body that sends its beginning and then nothing.
type silence struct {
	io.Reader
	ctx context.Context
}

func (s silence) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); err == nil {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s silence) Close() error { return nil }

// A read fails if its response does not continue, as behind a load balancer that has lost the
// server.
func TestResponseThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		conf := server.REST()
		conf.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil && strings.HasSuffix(r.URL.Path, "/pods") {
					resp.Body.Close()
					resp.Body = silence{strings.NewReader(`{"kind":"PodList",`), r.Context()}
				}
				return resp, err
			})
		})
		c, err := client.New(client.Config{REST: conf})
		must(t, err)
		begin := time.Now()
		if err := c.List(t.Context(), &corev1.PodList{}); err == nil ||
			!strings.Contains(err.Error(), "sent nothing for 2m0s") {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// Leases are renewed while the other writes of an operator wait for slow admission webhooks.
func TestLeasesHaveTheirOwnConnections(t *testing.T) {
	for name, read := range map[string]bool{"writes": false, "reads": true} {
		t.Run(name, func(t *testing.T) {
			server, over, arrived := apitest.New(), make(chan struct{}), make(chan struct{})
			https := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/pods") {
					arrived <- struct{}{}
					<-over
				}
				server.ServeHTTP(w, r)
			}))
			defer https.Close()
			c, err := client.New(client.Config{REST: &rest.Config{Host: https.URL}})
			must(t, err)
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			must(t, c.Create(t.Context(), lease))
			var others sync.WaitGroup
			defer others.Wait()
			defer close(over)
			for range 100 {
				others.Go(func() {
					if p := pod("web"); read {
						_ = c.Get(t.Context(), client.KeyOf(p), p)
					} else {
						_ = c.Create(t.Context(), p)
					}
				})
				<-arrived
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			must(t, c.Get(ctx, client.KeyOf(lease), lease))
			must(t, c.Update(ctx, lease))
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type unregistered struct{ corev1.Pod }

// Any scheme works, also one without the type.
func TestOwnScheme(t *testing.T) {
	_, c := newClient(t, func(cfg *client.Config) { cfg.Scheme = runtime.NewScheme() })
	assert.ErrorContains(t, c.Create(t.Context(), &unregistered{*pod("web")}), "unknown kind")
	must(t, c.Create(t.Context(), dynamic(podKind, "web")))
	must(t, c.Create(t.Context(), pod("web-2")))
}
