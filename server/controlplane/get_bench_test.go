package controlplane_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/server/controlplane"
)

// BenchmarkSmallGet is a GET of a small ConfigMap over HTTPS, by a user with a certificate whom RBAC lets: what chain's BenchmarkBeforeDispatch
// is to be compared with. AUTHN-01, AUTHZ-02
func BenchmarkSmallGet(b *testing.B) {
	s := onPort(b, controlplane.Config{})
	ctx, admin := b.Context(), client(s.ControlPlane, "root", user.SystemPrivilegedGroup)
	if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding("view", "ClusterRole", "view", "ann"), createOpts); err != nil {
		b.Fatal(err)
	}
	if _, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, createOpts); err != nil {
		b.Fatal(err)
	}
	const path = "/api/v1/namespaces/default/configmaps/c"
	pair := certified(b, s.ca, "ann")
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), Certificates: []tls.Certificate{certificate}}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Get(s.url + path)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
	}
}
