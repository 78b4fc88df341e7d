package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// kubectl auth shows the permissions of users and reconciles roles.
func TestKubectlAuth(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--in-memory", "--node=none", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	canI := func(args ...string) string {
		t.Helper()
		got := command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir()}, "kubectl",
			append([]string{"auth", "can-i"}, args...)...)
		return strings.TrimSpace(got.stdout)
	}
	assert.Equalf(t, canI("delete", "nodes", "--all-namespaces"), "yes", "the administrator")
	assert.Equalf(t, canI("get", "pods", "--as=ann"), "no", "ann")
	kubectl("create", "rolebinding", "ann", "--clusterrole=view", "--user=ann")
	for args, want := range map[string]string{
		"get pods": "yes", "list deployments.apps": "yes", "get secrets": "no", "delete pods": "no",
		"get pods -n kube-system": "no", "get /healthz": "yes", "get /metrics": "no",
	} {
		assert.Equalf(t, canI(append(strings.Fields(args), "--as=ann")...), want, "ann may %s", args)
	}
	wantContains(t, "permissions of ann", kubectl("auth", "can-i", "--list", "--as=ann"), "pods/log",
		"[get list watch]", "/healthz", "selfsubjectrulesreviews")
	wantContains(t, "permissions of the administrator", kubectl("auth", "can-i", "--list"), "*.*", "[*]")
	wantContains(t, "identity of ann", kubectl("auth", "whoami", "--as=ann", "--as-group=dev", "--as-uid=7"), "ann",
		"7", "dev", "system:authenticated")
	wantContains(t, "identity of the administrator", kubectl("auth", "whoami"), "system:masters")

	refused := command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir()}, "kubectl", "get", "secrets",
		"--as=ann")
	if refused.code == 0 {
		t.Error("ann saw secrets")
	}
	wantContains(t, "refusal", refused.stderr,
		`Error from server (Forbidden): secrets is forbidden: User "ann" cannot list resource "secrets" in API group "" in the namespace "default"`)

	manifest := filepath.Join(t.TempDir(), "roles.yaml")
	text := `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reads, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
`
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(manifest, []byte(text), 0o600))
	}
	reconcile := func(args ...string) string { // which reports changes on stderr
		t.Helper()
		got := command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir()}, "kubectl",
			append([]string{"auth", "reconcile", "-f", manifest}, args...)...)
		assert.Equalf(t, got.code, 0, "reconcile: %s", got.stderr)
		return got.stdout
	}
	write(text)
	wantContains(t, "reconcile", reconcile(),
		"clusterrole.rbac.authorization.k8s.io/reader reconciled",
		"rolebinding.rbac.authorization.k8s.io/reads reconciled")
	assert.Equalf(t, canI("get", "secrets", "--as=ann"), "yes", "after reconcile")
	write(strings.Replace(text, "verbs: [get]", "verbs: [list]", 1))
	reconcile("--remove-extra-permissions")
	if get, list := canI("get", "secrets", "--as=ann"), canI("list", "secrets", "--as=ann"); get != "no" ||
		list != "yes" {
		t.Errorf("after reconcile without extras: get %q, list %q", get, list)
	}
}

// Each invalid combination of authorization flags ends kelson serve with its message.
func TestWrongAuthorizationFlags(t *testing.T) {
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong.yaml")
	err := os.WriteFile(wrong, []byte("kind: AuthorizationConfiguration\napiVersion: apiserver.config.k8s.io/v1\n"),
		0o600)
	require.NoError(t, err)
	for text, args := range map[string][]string{
		`authorization-mode "Nonsense" is not a valid mode`:                 {"--authorization-mode=RBAC,Nonsense"},
		"has mode specified more than once":                                 {"--authorization-mode=RBAC,RBAC"},
		"authorization-mode ABAC's authorization policy file not passed":    {"--authorization-mode=ABAC"},
		"authorization-mode Webhook's authorization config file not passed": {"--authorization-mode=Webhook"},
		"cannot specify --authorization-policy-file without mode ABAC":      {"--authorization-policy-file=x"},
		"no such file or directory": {"--authorization-mode=ABAC",
			"--authorization-policy-file=" + filepath.Join(dir, "none")},
		"--authorization-config can not be specified when --authorization-mode": {"--authorization-config=" + wrong,
			"--authorization-mode=RBAC"},
		"at least one authorization mode must be defined": {"--authorization-config=" + wrong},
	} {
		got := command(t, nil, built(t, binary), append([]string{"serve", "--in-memory", "--secure-port=0"},
			args...)...)
		if got.code == 0 {
			t.Errorf("%v: exit 0", args)
		}
		wantContains(t, strings.Join(args, " "), got.stderr, text)
	}
}
