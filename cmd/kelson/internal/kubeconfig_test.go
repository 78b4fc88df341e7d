package internal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/internal/require"
)

// An error about a missing kubeconfig names the file and the remedy.
func TestErrors(t *testing.T) {
	missing, empty := filepath.Join(t.TempDir(), "missing"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	for _, test := range []struct{ variable, file, context, want string }{
		{missing, "", "", "no cluster is configured in " + missing + ": pass --kubeconfig, or set KUBECONFIG"},
		{empty, "", "", "no cluster is configured in " + empty + ": pass --kubeconfig, or set KUBECONFIG"},
		{"", missing, "", "read kubeconfig: stat " + missing + ": no such file or directory"},
		{"", empty, "", "kubeconfig " + empty + " names no cluster"},
		{missing, "", "prod", `read kubeconfig: context "prod" does not exist`},
	} {
		t.Setenv("KUBECONFIG", test.variable)
		if _, _, err := kubeconfig.Load(test.file, test.context); err == nil || err.Error() != test.want {
			t.Errorf("%+v: got %v", test, err)
		}
	}
}

// The command that makes kubectl use a kubeconfig works in other folders and with any name.
func TestExport(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: the test needs a POSIX shell")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"kubeconfig", "with space and 'quotes' $HOME", "/absolute/kubeconfig"} {
		want := name
		if !filepath.IsAbs(name) {
			want = filepath.Join(dir, name)
		}
		got, err := exec.Command("sh", "-c", kubeconfig.Export(name)+`; printf %s "$KUBECONFIG"`).Output()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", kubeconfig.Export(name), got, err)
		}
	}
}
