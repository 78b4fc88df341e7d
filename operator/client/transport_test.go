package client_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/client/clienttest"
)

// MACH-01: the transport settings of a rest.Config take effect.
func TestTransport(t *testing.T) {
	var seen http.Header
	var path string
	server := clienttest.New()
	server.SetFaults(clienttest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		seen, path = r.Header, r.URL.Path
		return false
	}})
	conf := server.RESTConfig()
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
		"Authorization": "Bearer secret", "Impersonate-User": "jane", "Impersonate-Group": "ops", "Wrapped": "yes", "User-Agent": "tests/1",
	} {
		if got := seen.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(path, "/clusters/one/api/v1") {
		t.Errorf("path %s", path)
	}
	if _, err := client.New(client.Config{}); err == nil {
		t.Error("no error without a configuration")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type unregistered struct{ corev1.Pod }

// MACH-07: any scheme works, also one without the type.
func TestOwnScheme(t *testing.T) {
	_, c := newClient(t, func(cfg *client.Config) { cfg.Scheme = runtime.NewScheme() })
	if err := c.Create(t.Context(), &unregistered{*pod("web")}); err == nil || !strings.Contains(err.Error(), "unknown kind") {
		t.Errorf("got %v", err)
	}
	must(t, c.Create(t.Context(), dynamic(podKind, "web")))
	must(t, c.Create(t.Context(), pod("web-2")))
}
