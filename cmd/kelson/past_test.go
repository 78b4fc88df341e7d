package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A past state is served read-only while its server runs; a fork continues from it, and does not
// change the server or its history.
func TestServeThePast(t *testing.T) {
	require.Long(t, "takes seconds")
	t.Parallel()
	kelson := built(t, binary)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	live := startServer(t, "--data-dir", data, "--history", "24h")
	kubectl := kubectlOf(t, live)
	kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
	kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	kubectl("create", "configmap", "settings", "--from-literal=step=one")
	then := revisionOf(t, kubectl, "configmap/settings")
	kubectl("patch", "configmap", "settings", "-p", `{"data":{"step":"two"}}`)
	kubectl("delete", "deployment", "web", "--wait")
	now := revisionOf(t, kubectl, "configmap/settings")
	require.Eventually(t, "the history has the last write", func() bool {
		got := command(t, nil, kelson, "diff", "--data-dir", data, "--from", now)
		return got.code == 0
	})

	past := startServer(t, "--data-dir", data, "--at", then)
	inPast := kubectlOf(t, past)
	got := inPast("get", "configmap", "settings", "-o", "jsonpath={.data.step} {.metadata.resourceVersion}")
	assert.Equalf(t, got, "one "+then, "the past")
	if got := inPast("get", "deployment,pods", "-o", "name"); strings.Count(got, "pod/web-") != 2 ||
		!strings.Contains(got, "deployment.apps/web") {
		t.Errorf("the past has\n%s", got)
	}
	assert.Equalf(t, inPast("auth", "can-i", "delete", "pods"), "yes\n", "auth can-i")
	refused := command(t, []string{"KUBECONFIG=" + past.kubeconfig}, built(t, kubectlBinary), "delete", "configmap",
		"settings")
	if refused.code == 0 || !strings.Contains(refused.stderr, "this server is read-only: it serves revision "+then) {
		t.Errorf("delete in the past: %+v", refused)
	}
	got = kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.step}")
	assert.Equalf(t, got, "two", "the live server")
	if code := past.stop(syscall.SIGTERM); code != 0 {
		t.Error(code, past.stderr)
	}

	to := filepath.Join(dir, "fork")
	fork := startCommand(t, "fork", "--data-dir", data, "--at", then, "--to", to)
	inFork := kubectlOf(t, fork)
	inFork("patch", "configmap", "settings", "-p", `{"data":{"step":"other"}}`)
	inFork("scale", "deployment", "web", "--replicas=3")
	inFork("rollout", "status", "deployment/web", "--timeout=60s")
	got = inFork("get", "pods", "-o", "name")
	assert.Equalf(t, strings.Count(got, "pod/web-"), 3, "the fork has\n%s", got)
	if code := fork.stop(syscall.SIGTERM); code != 0 {
		t.Error(code, fork.stderr)
	}
	again := startServer(t, "--data-dir", to)
	got = kubectlOf(t, again)("get", "configmap", "settings", "-o", "jsonpath={.data.step}")
	assert.Equalf(t, got, "other", "the fork, served again")
	if code := again.stop(syscall.SIGTERM); code != 0 {
		t.Error(code, again.stderr)
	}
	got = kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.step}")
	assert.Equalf(t, got, "two", "the live server")

	recording := filepath.Join(dir, "recorded.history")
	recorder := exec.Command(kelson, "record", "--kubeconfig", live.kubeconfig, "--out", recording)
	require.NoError(t, recorder.Start())
	t.Cleanup(func() { recorder.Process.Kill() })
	require.Eventually(t, "the recording has the object", func() bool {
		return command(t, nil, kelson, "history", "cm/settings", "--file", recording).code == 0
	})
	recorder.Process.Signal(syscall.SIGINT)
	assert.NoError(t, recorder.Wait())
	fork = startCommand(t, "fork", "--file", recording, "--at", now)
	got = kubectlOf(t, fork)("get", "configmap", "settings", "-o", "jsonpath={.data.step}")
	assert.Equalf(t, got, "two", "the fork of a recording")

	for what, args := range map[string][]string{
		"the history begins later": {"serve", "--data-dir", data, "--at",
			"1990-01-01T00:00:00Z"},
		"the history ends before": {"fork", "--data-dir", data, "--at",
			"999999999"},
		"this time is in the future": {"fork", "--data-dir", data, "--at",
			"2990-01-01T00:00:00Z"},
		`invalid moment "yesterday"`: {"serve", "--data-dir", data, "--at",
			"yesterday"},
		"the folder is not empty: name a new one": {"fork", "--data-dir", data, "--at", then,
			"--to", to},
		"has no history: start its server with": {"serve", "--data-dir", t.TempDir(), "--at",
			then},
		"--nodes has no effect with --at: a past state does not change": {"serve", "--data-dir", data, "--at", then,
			"--nodes", "3"},
		"--at and --in-memory cannot be used together": {"serve", "--in-memory", "--at", then},
		"--history-file has no effect without --at":    {"serve", "--history-file", recording},
		"--history-file and --data-dir cannot be used together": {"serve", "--history-file", recording,
			"--data-dir", data, "--at", then},
		"--file and --data-dir cannot be used together": {"fork", "--file", recording, "--data-dir",
			data, "--at", then},
		`required flag(s) "at" not set`: {"fork", "--data-dir", data},
		filepath.Join(dir, "none") + ": no such file or directory": {"fork", "--file", filepath.Join(dir, "none"),
			"--at", then},
		"not a history": {"fork", "--file", live.kubeconfig, "--at", then},
	} {
		got := command(t, []string{"TMPDIR=" + t.TempDir()}, kelson, append(args, "--secure-port=0")...)
		if got.code != wrongCode(what) || !strings.Contains(got.stderr, what) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: %+v; want %q", args, got, what)
		}
	}
}
