package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/require"
)

// revisionOf returns the resourceVersion of an object.
func revisionOf(t *testing.T, kubectl func(args ...string) string, object string) string {
	t.Helper()
	var obj struct {
		Metadata struct{ ResourceVersion string }
	}
	require.NoError(t, json.Unmarshal([]byte(kubectl("get", object, "-o", "json")), &obj))
	return obj.Metadata.ResourceVersion
}

// A server with --history keeps every version of every object: while it runs, after it was killed,
// and after a restart.
func TestServeWithHistory(t *testing.T) {
	require.Long(t, "takes seconds")
	kelson := built(t, binary)
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"--data-dir", data, "--node=none", "--history", "24h,1GiB"}
	s := startServer(t, args...)
	kubectl := kubectlOf(t, s)
	shown := func(args ...string) string {
		got := command(t, nil, kelson, append(args, "--data-dir", data)...)
		return got.stdout + got.stderr
	}
	kubectl("create", "secret", "generic", "password", "--from-literal=value=hush-hush")
	kubectl("create", "configmap", "web", "--from-literal=step=one")
	first := revisionOf(t, kubectl, "configmap/web")
	kubectl("patch", "configmap", "web", "-p", `{"data":{"step":"two"}}`)
	require.Eventually(t, "a running server's history has the change", func() bool {
		return strings.Contains(shown("history", "cm/web"), `.data.step: "one" → "two"`)
	})

	s.stop(syscall.SIGKILL)
	s = startServer(t, args...)
	kubectl = kubectlOf(t, s)
	kubectl("patch", "configmap", "web", "-p", `{"data":{"step":"three"}}`)
	last := revisionOf(t, kubectl, "configmap/web")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Error(code, s.stderr)
	}
	if n := strings.Count(shown("history", "cm/web"), "\n    .data.step"); n != 2 {
		t.Errorf("%d changes, want 2:\n%s", n, shown("history", "cm/web"))
	}
	wantContains(t, "diff", shown("diff", "--from", first, "--to", last, "cm"), "configmaps/default/web: changed",
		`.data.step: "one" → "three"`)
	wantContains(t, "blame", shown("history", "blame", "cm/web", ".data"), last,
		`.data.step: "three"  kubectl-patch (Update)`)
	wantContains(t, "blame --at", shown("history", "blame", "cm/web", ".data", "--at", first),
		`.data.step: "one"  kubectl-create (Update)`)
	if got := shown("history", "secret/password"); strings.Contains(got, "aHVzaC1odXNo") {
		t.Errorf("a Secret's value is shown:\n%s", got)
	}
	beyond, err := strconv.ParseUint(last, 10, 64)
	require.NoError(t, err)
	for what, args := range map[string][]string{
		"the history begins later, at revision": {"diff", "--from", "0"},
		"the history ends before, at revision":  {"diff", "--from", strconv.FormatUint(beyond+1_000_000, 10)},
		"this time is in the future":            {"diff", "--from", "2999-01-01T00:00:00Z"},
		"the history begins later":              {"diff", "--from", "1999-01-01T00:00:00Z"},
		"cannot be used together":               {"serve", "--in-memory", "--history", "24h"},
		`--history: "10XiB": want an age`:       {"serve", "--history", "10XiB"},
	} {
		if args[0] != "serve" {
			args = append(args, "--data-dir", data)
		}
		got := command(t, nil, kelson, args...)
		if got.code != 1 || !strings.Contains(got.stderr, what) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: %+v; want %q", args, got, what)
		}
	}

	names, err := filepath.Glob(filepath.Join(data, "history", "*.history"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if info, err := os.Stat(names[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	content, err := os.ReadFile(names[0])
	require.NoError(t, err)
	content[len(content)/2] ^= 0x40
	require.NoError(t, os.WriteFile(names[0], content, 0o600))
	if got := command(t, nil, kelson, "history", "cm/web", "--data-dir", data); got.code != 1 ||
		!strings.Contains(got.stderr, "damaged history") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("a damaged file: %+v", got)
	}
	empty := t.TempDir()
	if got := command(t, nil, kelson, "history", "cm/web", "--data-dir", empty); got.code != 1 ||
		!strings.Contains(got.stderr, "has no history: start its server with --history") ||
		strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("no history: %+v", got)
	}
}
