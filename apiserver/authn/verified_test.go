package authn_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/authn"
	"kelson.dev/internal/require"
)

// The user of a certificate is cached, but not longer than the certificate is valid.
func TestRememberedCertificateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, caKey := certificate(t, pkix.Name{CommonName: "ca"}, nil, nil)
		bob, _ := certificate(t, pkix.Name{CommonName: "bob"}, ca, caKey) // valid for an hour
		pool := x509.NewCertPool()
		pool.AddCert(ca)
		auth, err := authn.New(t.Context(), authn.Config{ClientCAs: pool})
		require.NoError(t, err)
		req := httptest.NewRequest("GET", "/", nil)
		req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{bob}}
		for range 3 {
			resp, ok, err := auth.AuthenticateRequest(req)
			if err != nil || !ok || resp.User.GetName() != "bob" {
				t.Errorf("%v %v %v", resp, ok, err)
			}
			time.Sleep(19*time.Minute + 59*time.Second)
		}
		if _, ok, _ := auth.AuthenticateRequest(req); !ok {
			t.Error("rejected before the certificate expires")
		}
		time.Sleep(5 * time.Second)
		if _, ok, err := auth.AuthenticateRequest(req); ok || err == nil {
			t.Errorf("accepted after the certificate expired: %v %v", ok, err)
		}
	})
}

func BenchmarkClientCertificate(b *testing.B) {
	ca, caKey := certificate(b, pkix.Name{CommonName: "ca"}, nil, nil)
	bob, _ := certificate(b, pkix.Name{CommonName: "bob"}, ca, caKey)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	auth, err := authn.New(b.Context(), authn.Config{ClientCAs: pool})
	require.NoError(b, err)
	req := httptest.NewRequest("GET", "/", nil)
	req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{bob}}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := auth.AuthenticateRequest(req); !ok {
			b.Fatal(err)
		}
	}
}
