package controlplane_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/authz/rbac"
	"kelson.dev/apiserver/filters"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/authorizers"
	"kelson.dev/kubernetes/controlplane"
)

// BenchmarkSmallGet measures a GET of a small ConfigMap over HTTPS, by a user with a certificate
// and one of 1,000 bindings. It also measures the filters before dispatch alone, as before-ns and
// as a share of the whole.
func BenchmarkSmallGet(b *testing.B) {
	s := onPort(b, controlplane.Config{})
	ctx, admin := b.Context(), client(s.ControlPlane, "root", user.SystemPrivilegedGroup)
	for i := range 1000 {
		who := fmt.Sprint("user-", i)
		if i == 500 {
			who = "ann"
		}
		_, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding(who, "ClusterRole", "view", who),
			createOpts)
		require.NoError(b, err)
	}
	_, err := admin.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, createOpts)
	require.NoError(b, err)
	const path = "/api/v1/namespaces/default/configmaps/c"
	pair := certified(b, s.ca, "ann")
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(b, err)
	transport := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), Certificates: []tls.Certificate{certificate}}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	gates, seen := beforeDispatch(b, s)
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate.Leaf}}
	// headers of a typical client
	for _, name := range []string{"Accept", "Accept-Encoding", "User-Agent"} {
		req.Header.Set(name, "a value")
	}
	w := nowhere{http.Header{}}
	// Alternate both measurements, so that both see the machine in the same state.
	const turn = 100
	var whole, before time.Duration
	b.ReportAllocs()
	n := 0
	for ; b.Loop(); n++ {
		start := time.Now()
		resp, err := client.Get(s.url + path)
		require.NoError(b, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		whole += time.Since(start)
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
		if n%turn == 0 {
			b.StopTimer()
			start = time.Now()
			for range turn {
				gates.ServeHTTP(w, req)
			}
			before += time.Since(start)
			b.StartTimer()
		}
	}
	passes := (n + turn - 1) / turn * turn
	if *seen != passes {
		b.Fatalf("%d of %d requests passed the filters", *seen, passes)
	}
	perGet, perPass := float64(whole.Nanoseconds())/float64(n), float64(before.Nanoseconds())/float64(passes)
	b.ReportMetric(perPass, "before-ns")
	b.ReportMetric(100*perPass/perGet, "%-of-GET")
}

// beforeDispatch is the pipeline of a control plane: client certificates, the modes Node and RBAC
// over the same state, and metrics. It ends with a counter instead of the verbs.
func beforeDispatch(b *testing.B, s *site) (gates http.Handler, seen *int) {
	identify, err := authn.New(b.Context(), authn.Config{ClientCAs: s.ca.Pool()})
	require.NoError(b, err)
	options := authz.Options{Modes: []string{authz.ModeNode, authz.ModeRBAC}}
	authorizer, err := authz.New(options.Configuration(), authz.Modes{
		authz.ModeNode: func() (authz.Authorizer, error) { return authorizers.Node(s.Store()), nil },
		authz.ModeRBAC: func() (authz.Authorizer, error) { return rbac.New(s.Store()), nil },
	})
	require.NoError(b, err)
	seen = new(int)
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { *seen++ })
	return filters.New(filters.Config{Resources: count, Authenticator: identify, Authorizer: authorizer,
		Metrics: prometheus.NewRegistry()}), seen
}

// nowhere is a ResponseWriter that discards everything.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}
