package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/require"
)

// A recording of a running control plane has every version of an object, and no values of Secrets.
func TestRecordAndHistory(t *testing.T) {
	require.Long(t, "takes seconds")
	kelson := built(t, binary)
	s := startServer(t, "--in-memory", "--node=none", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	kubectl("create", "configmap", "early", "--from-literal=step=zero")
	file := filepath.Join(t.TempDir(), "test.history")
	recorder := exec.Command(kelson, "record", "--kubeconfig", s.kubeconfig, "--out", file)
	var errors output
	recorder.Stderr = &errors
	require.NoError(t, recorder.Start())
	t.Cleanup(func() { recorder.Process.Kill() })
	shown := func(args ...string) string {
		got := command(t, nil, kelson, append(args, "--file", file)...)
		return got.stdout + got.stderr
	}
	require.Eventually(t, "the recording has the first object", func() bool {
		return strings.Contains(shown("history", "cm/early"), "created")
	})

	kubectl("create", "secret", "generic", "password", "--from-literal=value=hush-hush")
	kubectl("create", "configmap", "web", "--from-literal=step=one")
	kubectl("patch", "configmap", "web", "-p", `{"data":{"step":"two"}}`)
	kubectl("delete", "configmap", "web")
	require.Eventually(t, "the recording has the deletion", func() bool {
		return strings.Contains(shown("history", "configmap/web"), "deleted")
	})
	require.Eventually(t, "the recording has the Secret", func() bool {
		return strings.Contains(shown("history", "secret/password"), "created")
	})
	recorder.Process.Signal(syscall.SIGINT)
	if err := recorder.Wait(); err != nil {
		t.Errorf("record: %v\n%s", err, errors.String())
	}

	wantContains(t, "history", shown("history", "cm/web", "-n", "default"), "configmaps/default/web\n",
		"  created  by kubectl-create (Update)\n",
		`.data.step: "one" → "two"`, "  deleted\n")
	wantContains(t, "diff", shown("diff", "--from", "1", "cm"), "configmaps/default/early: created")
	wantContains(t, "diff", shown("diff", "--from", "tomorrow"), "--from: invalid moment")
	wantContains(t, "blame", shown("history", "blame", "cm/early", "data"), "configmaps/default/early\n",
		"  or earlier\n", `  .data.step: "zero"  kubectl-create (Update)`)
	wantContains(t, "blame of a deleted object", shown("history", "blame", "cm/web"),
		"cm/web does not exist at that moment")
	wantContains(t, "blame of a Secret", shown("history", "blame", "secret/password", ".data", "--secrets"),
		"unknown version", `.data.value: ""  kubectl-create (Update)`)
	wantContains(t, "no such object", shown("history", "cm/other"), `no object "cm/other"`)
	content, err := os.ReadFile(file)
	if err != nil || bytes.Contains(content, []byte("aHVzaC1odXNo")) || bytes.Contains(content, []byte("hush-hush")) {
		t.Errorf("the file has the Secret's value: %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if got := command(t, nil, kelson, "record", "--kubeconfig", s.kubeconfig, "--out", file); got.code != 1 ||
		!strings.Contains(got.stderr, "file exists") {
		t.Errorf("a second recording to the same file: %+v", got)
	}
}
