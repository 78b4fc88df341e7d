package manager_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/webhook"
)

// writeCertificate writes a certificate and its key to a directory.
func writeCertificate(t *testing.T, dir, certName, keyName string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "given"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	for name, block := range map[string]*pem.Block{certName: {Type: "CERTIFICATE", Bytes: cert},
		keyName: {Type: "PRIVATE KEY", Bytes: private}} {
		must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// Certificates in a directory, including the usual default directory, are used, and then nothing is
// written to the API server.
func TestGivenCertificates(t *testing.T) {
	for name, where := range map[string]func(t *testing.T) (manager.WebhookConfig, string){
		"default": func(t *testing.T) (manager.WebhookConfig, string) {
			t.Setenv("TMPDIR", t.TempDir())
			dir := filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
			must(t, os.MkdirAll(dir, 0o700))
			return manager.WebhookConfig{}, dir
		},
		"named": func(t *testing.T) (manager.WebhookConfig, string) {
			dir := t.TempDir()
			return manager.WebhookConfig{CertDir: dir, CertName: "c.pem", KeyName: "k.pem"}, dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, dir := where(t)
			certName, keyName := "tls.crt", "tls.key"
			if cfg.CertName != "" {
				certName, keyName = cfg.CertName, cfg.KeyName
			}
			writeCertificate(t, dir, certName, keyName)
			// in a cluster, the operator's own authority would write a Secret there
			cfg.Address, cfg.Namespace = "127.0.0.1:0", "system"
			s := apitest.New()
			m, err := manager.New(manager.Config{REST: s.REST(), Name: "test",
				Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Webhooks: cfg})
			must(t, err)
			must(t, m.AddWebhook(webhook.Hook{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}},
				webhook.HandlerFunc(
					func(context.Context, webhook.Request) webhook.Response { return webhook.Allowed() })))
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			<-m.Elected()
			conn, err := tls.Dial("tcp", m.WebhookServer().Address(), &tls.Config{InsecureSkipVerify: true})
			must(t, err)
			c := conn.ConnectionState().PeerCertificates[0]
			assert.Equalf(t, c.Subject.CommonName, "given", "the certificate of %v is served", c.Subject)
			_ = conn.Close()
			for _, want := range []string{"certwatcher_read_certificate_total 1",
				"certwatcher_read_certificate_errors_total 0"} {
				if _, body := get(t, m.MetricsHandler(), "/metrics"); !strings.Contains(body, want) {
					t.Errorf("no %s", want)
				}
			}
			cancel()
			must(t, <-ended)
			assert.Lenf(t, s.Requests(), 0, "the server got the requests")
		})
	}
	t.Run("missing", func(t *testing.T) {
		m, err := manager.New(manager.Config{
			REST: apitest.New().REST(), Name: "test", Log: slog.New(slog.DiscardHandler),
			Webhooks: manager.WebhookConfig{Address: "127.0.0.1:0", CertDir: t.TempDir()},
		})
		must(t, err)
		must(t, m.AddWebhook(webhook.Hook{Path: "/x"}, webhook.HandlerFunc(
			func(context.Context, webhook.Request) webhook.Response { return webhook.Allowed() })))
		if err := m.Run(t.Context()); err == nil {
			t.Error("the manager runs without the configured certificates")
		}
	})
}

// The operator's namespace is the namespace of its pod.
func TestInClusterNamespace(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "tea")
	assert.Equal(t, manager.InClusterNamespace(), "tea")
}
