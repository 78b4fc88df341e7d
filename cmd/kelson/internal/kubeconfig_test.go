package internal_test

import (
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/cmd/kelson/internal/kubeconfig"
)

// An error about a missing kubeconfig names the file and the remedy.
func TestErrors(t *testing.T) {
	missing, empty := filepath.Join(t.TempDir(), "missing"), filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
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
