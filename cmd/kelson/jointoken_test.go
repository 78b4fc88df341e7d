package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// kelson token creates tokens with which machines join; such a token can request a certificate and
// do nothing else.
func TestTokensOfNodes(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--data-dir", filepath.Join(t.TempDir(), "data"), "--node=none",
		"--enable-bootstrap-token-auth")
	kelson := func(args ...string) outcome {
		return command(t, nil, built(t, binary), append(args, "--kubeconfig", s.kubeconfig)...)
	}
	const token = "abcdef.0123456789abcdef"
	created := kelson("token", "create", token, "--server", "https://10.0.0.1:6443", "--description", "for a test")
	wantContains(t, "token create", created.stdout+created.stderr,
		"kelson-node join https://10.0.0.1:6443 --token "+token+" --ca-hash sha256:")
	const several = "https://10.0.0.1:6443,https://10.0.0.2:6443"
	wantContains(t, "token create for several servers", kelson("token", "create", "--server", several).stdout,
		"kelson-node join https://10.0.0.1:6443 https://10.0.0.2:6443 --token ")
	if wrong := kelson("token", "create", "--server", several+",10.0.0.3"); wrong.code != 1 ||
		!strings.Contains(wrong.stderr, `--server "10.0.0.3": must be an https URL`) {
		t.Errorf("a wrong third server: %+v", wrong)
	}
	listed := kelson("token", "list").stdout
	wantContains(t, "token list", listed, "abcdef  in 23h   system:bootstrappers:kelson:nodes  for a test")
	if strings.Contains(listed, "0123456789abcdef") {
		t.Errorf("token list shows the secret: %s", listed)
	}

	kubectlOf(t, s)("create", "secret", "generic", "hidden", "--from-literal=a=b")
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	for path, want := range map[string]int{
		requests:           http.StatusOK,
		requests + "/none": http.StatusNotFound,
		"/api/v1/nodes":    http.StatusForbidden,
		"/api/v1/nodes/n":  http.StatusForbidden,
		"/api/v1/pods":     http.StatusForbidden,
		"/api/v1/secrets":  http.StatusForbidden,
		"/api/v1/namespaces/default/secrets/hidden":                     http.StatusForbidden,
		"/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef": http.StatusForbidden,
		"/api/v1/nodes/n/proxy/pods":                                    http.StatusForbidden,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings":        http.StatusForbidden,
	} {
		assert.Equalf(t, withToken(t, s, token, path), want, "with the token, GET %s", path)
	}
	got := withToken(t, s, "", "/api/v1/namespaces/kube-public/configmaps/cluster-info")
	assert.Equalf(t, got, http.StatusOK, "anonymous GET of cluster-info")
	for _, action := range []string{
		"create pods", "create nodes", "update nodes/status", "create secrets", "create clusterrolebindings",
		"update certificatesigningrequests/approval", "create serviceaccounts/token",
		"delete certificatesigningrequests",
	} {
		verb, resource, _ := strings.Cut(action, " ")
		can := command(t, nil, built(t, binary), "kubectl", "--kubeconfig", s.kubeconfig, "auth", "can-i", verb,
			resource,
			"--as=system:bootstrap:abcdef", "--as-group=system:bootstrappers",
			"--as-group=system:bootstrappers:kelson:nodes", "--as-group=system:authenticated")
		if strings.TrimSpace(can.stdout) != "no" {
			t.Errorf("the token's user may %s: %s%s", action, can.stdout, can.stderr)
		}
	}

	wantContains(t, "token delete", kelson("token", "delete", "abcdef").stdout, `token "abcdef" deleted`)
	assert.Equalf(t, withToken(t, s, token, "/api"), http.StatusUnauthorized, "with the deleted token")
	for _, wrong := range []struct {
		want string
		args []string
	}{
		{"not a bootstrap token", []string{"create", "short"}},
		{"must be an https URL", []string{"create", "--server", "http://a"}},
		{"must not be negative", []string{"create", "--ttl=-1s"}},
		{"is not the ID of a token", []string{"delete", "UPPER1"}},
		{`token "abcdef" not found`, []string{"delete", "abcdef"}},
	} {
		got := kelson(append([]string{"token"}, wrong.args...)...)
		if wantContains(t, strings.Join(wrong.args, " "), got.stderr, wrong.want); got.code != 1 {
			t.Errorf("token %v: exit code %d, want 1", wrong.args, got.code)
		}
	}
}

// kelson token create fails if the server does not accept bootstrap tokens, and leaves no Secret.
func TestTokensNeedBootstrapAuthentication(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--data-dir", filepath.Join(t.TempDir(), "data"), "--node=none")
	got := command(t, nil, built(t, binary), "token", "create", "--kubeconfig", s.kubeconfig)
	wantContains(t, "token create", got.stderr,
		"does not accept bootstrap tokens: start it with --enable-bootstrap-token-auth")
	if left := kubectlOf(t, s)("get", "secrets", "-n", "kube-system", "-o", "name"); strings.Contains(left,
		"bootstrap-token") {
		t.Errorf("a token stayed: %s", left)
	}
}
