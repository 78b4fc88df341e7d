//go:build linux

package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// startServer serves cluster-info, and writes the certificate of the server to a file.
func startServer(t *testing.T) (url, authority string) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(corev1.ConfigMap{})
	}))
	t.Cleanup(s.Close)
	authority = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL, authority
}

// A node that has joined moves to another server of its cluster, and to no other.
func TestMove(t *testing.T) {
	url, authority := startServer(t)
	f := FilesIn(t.TempDir())
	if err := os.MkdirAll(f.Pki, 0o700); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{f.Authority, f.certificate()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	joined := clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{
		"default-cluster": {Server: "https://10.0.0.1:6443", CertificateAuthority: f.Authority}}}
	if err := clientcmd.WriteToFile(joined, f.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	server := func() string {
		cfg, err := clientcmd.LoadFromFile(f.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Clusters["default-cluster"].Server
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "another cluster"}, key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(f.Authority, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Raw}))
	if err := (&Cluster{Server: url}).Prepare(ctx, f); err == nil ||
		!strings.Contains(err.Error(), "not known to belong to the same cluster") ||
		server() != "https://10.0.0.1:6443" {
		t.Errorf("a server of another authority: %v; the node uses %s", err, server())
	}
	write(content)
	if err := (&Cluster{Server: url}).Prepare(ctx, f); err != nil || server() != url {
		t.Errorf("another server of the cluster: %v; the node uses %s", err, server())
	}
	if err := (&Cluster{Server: "https://10.0.0.1:6443"}).Prepare(ctx, Files{}); err == nil ||
		!strings.Contains(err.Error(), "pass --token") {
		t.Errorf("a machine that has not joined: %v", err)
	}
}
