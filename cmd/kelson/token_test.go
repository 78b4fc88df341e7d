package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// withToken sends a request whose only credential is a bearer token and returns the status.
func withToken(t *testing.T, s *server, token, path string) int {
	t.Helper()
	admin, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	bearer := rest.AnonymousClientConfig(admin)
	bearer.BearerToken = token
	client, err := rest.HTTPClientFor(bearer)
	require.NoError(t, err)
	resp, err := client.Get(s.url + path)
	require.NoError(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// A token from kubectl create token authenticates, also after a restart, until the service account
// is deleted.
func TestTokensOfServiceAccounts(t *testing.T) {
	require.Long(t, "takes seconds")
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, "--data-dir", data, "--node=none")
	kubectl := kubectlOf(t, s)
	kubectl("create", "namespace", "lab")
	require.Eventually(t, "the namespace has its service account", func() bool {
		return strings.Contains(kubectl("get", "serviceaccounts", "-n", "lab", "-o", "name"), "serviceaccount/default")
	})
	wantContains(t, "root CA", kubectl("get", "configmap", "kube-root-ca.crt", "-n", "lab", "-o",
		`jsonpath={.data.ca\.crt}`), "BEGIN CERTIFICATE")
	token := strings.TrimSpace(kubectl("create", "token", "default", "-n", "lab"))
	const known = "/api/v1" // every authenticated user can discover the served kinds
	check := func(when string, want int) {
		t.Helper()
		assert.Equalf(t, withToken(t, s, token, known), want, "%s", when)
	}
	check("fresh", http.StatusOK)
	assert.Equalf(t, withToken(t, s, "", known), http.StatusForbidden, "anonymous")
	assert.Equalf(t, withToken(t, s, token+"x", known), http.StatusUnauthorized, "a forged token")
	s.stop(syscall.SIGTERM)
	s = startServer(t, "--data-dir", data, "--node=none")
	check("after a restart", http.StatusOK)
	kubectlOf(t, s)("delete", "serviceaccount", "default", "-n", "lab")
	check("after the account was deleted", http.StatusUnauthorized)
}

// With --token-auth-file, a token of the file is accepted and another one gets 401.
func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	require.NoError(t, os.WriteFile(file, []byte("letmein,jane,,\"system:masters\"\n"), 0o600))
	s := startServer(t, "--in-memory", "--node=none", "--token-auth-file", file)
	assert.Equalf(t, withToken(t, s, "letmein", "/api/v1/namespaces"), http.StatusOK, "a token of the file")
	got := withToken(t, s, "letmeout", "/api/v1/namespaces")
	assert.Equalf(t, got, http.StatusUnauthorized, "another token")
}

// With AlwaysAllow, requests without a valid credential get 401.
func TestAlwaysAllowRejectsAnonymous(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	require.NoError(t, os.WriteFile(file, []byte("letmein,jane,\n"), 0o600))
	s := startServer(t, "--in-memory", "--node=none", "--token-auth-file", file, "--authorization-mode=AlwaysAllow")
	for token, want := range map[string]int{"letmein": http.StatusOK, "": http.StatusUnauthorized} {
		assert.Equalf(t, withToken(t, s, token, "/api/v1/namespaces"), want, "token %q", token)
	}
}
