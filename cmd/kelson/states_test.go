package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Servers open states that earlier programs wrote, in every format: their data directories, backups
// and histories. testdata/states/write.sh writes the files; they never change.
func TestStates(t *testing.T) {
	require.Long(t, "starts servers")
	archives, err := filepath.Glob("testdata/states/*.tar.gz")
	if err != nil || len(archives) < 2 {
		t.Fatalf("%v, %v", archives, err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			dir := t.TempDir()
			out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput()
			require.NoErrorf(t, err, "\n%s", out)
			data := filepath.Join(dir, "data")
			check := func() {
				t.Helper()
				if got := command(t, nil, built(t, binary), "data", "check", data); got.code != 0 ||
					!strings.Contains(got.stdout, "sound") {
					t.Errorf("kelson data check: %d, %q %q", got.code, got.stdout, got.stderr)
				}
			}
			for range 2 { // the second server reads the state that the first one wrote
				openState(t, data)
				check()
			}
			backup := filepath.Join(dir, "backup")
			if _, err := os.Stat(backup); err == nil {
				data = filepath.Join(dir, "restored")
				got := command(t, nil, built(t, binary), "data", "restore", backup, data)
				require.Equalf(t, got.code, 0, "kelson data restore: %q", got.stderr)
				openState(t, data)
				check()
			}
			history := filepath.Join(dir, "history")
			if _, err := os.Stat(history); err == nil {
				got := command(t, nil, built(t, binary), "history", "--file", history, "deployment/web", "-n", "shop")
				if got.code != 0 || !strings.Contains(got.stdout, "created") {
					t.Errorf("kelson history: %q %q", got.stdout, got.stderr)
				}
			}
		})
	}
}

// openState starts a server on a data directory, reads the objects of testdata/states, changes one
// and stops the server.
func openState(t *testing.T, data string) {
	t.Helper()
	s := startServer(t, "--data-dir="+data, "--kubeconfig="+filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := func(args ...string) string {
		t.Helper()
		got := command(t, nil, built(t, binary), append([]string{"kubectl", "--kubeconfig", s.kubeconfig, "-n", "shop"},
			args...)...)
		assert.Equalf(t, got.code, 0, "kubectl %v: %s", args, got.stderr)
		return got.stdout
	}
	for _, object := range []struct{ name, path, want string }{
		{"configmap/prices", "{.data.tea}", "3"},
		{"secret/key", "{.data.password}", "bm90IHNlY3JldA=="},
		{"deployment/web", "{.spec.template.spec.containers[0].image} {.spec.replicas}", "registry.example/web:v1 2"},
		{"clusterrole/clerk", "{.rules[0].resources[0]}", "configmaps"},
		{"tea/green", "{.spec.minutes}", "2"},
	} {
		got := kubectl("get", object.name, "-o", "jsonpath="+object.path)
		assert.Equalf(t, got, object.want, "%s", object.name)
	}
	before := kubectl("get", "tea/green", "-o", "jsonpath={.metadata.resourceVersion} {.metadata.uid}")
	kubectl("annotate", "--overwrite", "tea/green", "opened="+filepath.Base(t.TempDir())+
		strings.ReplaceAll(before, " ", "-"))
	after := kubectl("get", "tea/green", "-o", "jsonpath={.metadata.resourceVersion} {.metadata.uid}")
	if was, is := strings.Fields(before), strings.Fields(after); len(is) != 2 || slices.Equal(was, is) ||
		was[1] != is[1] {
		t.Errorf("revision and uid %v became %v", was, is)
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the server exits with %d: %s", code, s.stderr)
	}
}
