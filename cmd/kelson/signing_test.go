package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A certificate that was requested and approved with kubectl authenticates.
func TestApprovedCertificateAuthenticates(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	require.NoError(t, err)
	s := startServer(t, "--in-memory", "--node=none")
	kubectl := kubectlOf(t, s)
	kubectl("apply", "-f", file("csr.yaml", []byte(`
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: jane}
spec:
  signerName: kubernetes.io/kube-apiserver-client
  usages: [client auth]
  request: `+base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})))))
	kubectl("certificate", "approve", "jane")
	var chain []byte
	require.Eventually(t, "the request is signed", func() bool {
		chain, err = base64.StdEncoding.DecodeString(kubectl("get", "csr", "jane", "-o",
			"jsonpath={.status.certificate}"))
		return err == nil && len(chain) > 0
	})
	kubectl("config", "set-credentials", "jane", "--client-certificate", file("jane.crt", chain), "--client-key",
		file("jane.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	got := kubectl("auth", "whoami", "--user", "jane", "-o",
		"jsonpath={.status.userInfo.username}")
	assert.Equalf(t, strings.TrimSpace(got), "jane", "I am %q", got)
}

// A signing certificate without its key ends kelson serve with an error.
func TestSigningAuthorityNeedsItsKey(t *testing.T) {
	got := command(t, nil, built(t, binary), "serve", "--in-memory", "--secure-port=0",
		"--cluster-signing-cert-file=ca.crt")
	assert.Equalf(t, got.code, 1, "%v", got)
	wantContains(t, "error", got.stderr, "--cluster-signing-cert-file and --cluster-signing-key-file must be given together")
}
