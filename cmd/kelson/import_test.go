package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/require"
)

// A server's audit log becomes a history.
func TestImportAuditLog(t *testing.T) {
	kelson := built(t, binary)
	dir := t.TempDir()
	policy, log, file := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log"),
		filepath.Join(dir, "audit.history")
	err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: RequestResponse\n"), 0o600)
	require.NoError(t, err)
	s := startServer(t, "--in-memory", "--node=none", "--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--audit-policy-file", policy, "--audit-log-path", log)
	kubectl := kubectlOf(t, s)
	kubectl("create", "secret", "generic", "password", "--from-literal=value=hush-hush")
	kubectl("create", "configmap", "web", "--from-literal=step=one")
	kubectl("patch", "configmap", "web", "-p", `{"data":{"step":"two"}}`)
	kubectl("delete", "configmap", "web")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Error(code, s.stderr)
	}
	if got := command(t, nil, kelson, "history", "import", log, "--out", file); got.code != 0 ||
		!strings.HasPrefix(got.stdout, "imported ") {
		t.Fatalf("%+v", got)
	}
	got := command(t, nil, kelson, "history", "configmap/web", "--file", file)
	wantContains(t, "history", got.stdout+got.stderr, "configmaps/default/web\n",
		"  created  by kubectl-create (Update)\n",
		`.data.step: "one" → "two"`, "  deleted\n")
	if content, err := os.ReadFile(file); err != nil || strings.Contains(string(content), "aHVzaC1odXNo") ||
		strings.Contains(string(content), "hush-hush") {
		t.Errorf("the file has the Secret's value: %v", err)
	}

	other := filepath.Join(dir, "other.history")
	for want, args := range map[string][]string{
		"file exists":                                 {log, "--out", file},
		"event 1 of the audit log":                    {policy, "--out", other},
		"the audit log has no versions of objects":    {os.DevNull, "--out", other},
		"no such file or directory":                   {filepath.Join(dir, "none"), "--out", other},
		`required flag(s) "out" not set`:              {log},
		"requires at least 1 arg(s), only received 0": {"--out", other},
	} {
		if got := command(t, nil, kelson, append([]string{"history", "import"}, args...)...); got.code != wrongCode(want) || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: %+v; want %q", args, got, want)
		}
		if _, err := os.Stat(other); err == nil {
			t.Errorf("%v left a file", args)
		}
	}
}

// A capture of k8shark becomes a history.
func TestImportCapture(t *testing.T) {
	kelson := built(t, binary)
	dir := t.TempDir()
	capture, file := filepath.Join(dir, "capture.ndjson"), filepath.Join(dir, "capture.history")
	const list = `{"captured_at":"2026-11-23T10:00:01Z","api_path":"/api/v1/namespaces/default/configmaps","response_code":200,"response_body":{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"20"},"items":[{"metadata":{"namespace":"default","name":"web","resourceVersion":"10"},"data":{"step":"one"}}]}}` + "\n"
	const event = `{"captured_at":"2026-11-23T10:00:02Z","api_path":"/api/v1/namespaces/default/configmaps","event_type":"MODIFIED","response_code":200,"response_body":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"web","resourceVersion":"21"},"data":{"step":"two"}}}` + "\n"
	require.NoError(t, os.WriteFile(capture, []byte(list+event), 0o600))
	if got := command(t, nil, kelson, "history", "import", capture, "--out", file); got.code != 0 ||
		got.stdout != "imported 2 versions and 0 deletions to "+file+"\n" {
		t.Fatalf("%+v", got)
	}
	got := command(t, nil, kelson, "history", "configmap/web", "--file", file)
	wantContains(t, "history", got.stdout+got.stderr, "configmaps/default/web\n", `.data.step: "one" → "two"`)

	damaged := filepath.Join(dir, "damaged.kshrk")
	require.NoError(t, os.WriteFile(damaged, []byte("PK\x03\x04 and no more"), 0o600))
	other := filepath.Join(dir, "other.history")
	for want, args := range map[string][]string{
		"zip: not a valid zip file":                {damaged},
		"is a capture of k8shark: import it alone": {capture, damaged},
	} {
		if got := command(t, nil, kelson, append([]string{"history", "import", "--out", other}, args...)...); got.code != 1 || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: %+v; want %q", args, got, want)
		}
		if _, err := os.Stat(other); err == nil {
			t.Errorf("%v left a file", args)
		}
	}
}
