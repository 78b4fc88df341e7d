package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/plan"
	"kelson.dev/internal/require"
)

// A missing kubeconfig is reported before the operator is built.
func TestPlanMissingKubeconfig(t *testing.T) {
	dir := t.TempDir()
	require.Files(t, dir, map[string]string{"go.mod": "module example.com/shop\n\ngo 1.26.0\n",
		"cmd/main.go": "package main\n\nfunc main() { undefined() }\n"})
	c := plan.Command()
	c.SetArgs([]string{dir, "--generate=false", "--kubeconfig", filepath.Join(dir, "missing")})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	c.SilenceUsage, c.SilenceErrors = true, true
	if err := c.ExecuteContext(t.Context()); err == nil ||
		!strings.HasPrefix(err.Error(), "read kubeconfig: stat "+dir) {
		t.Errorf("got %v", err)
	}
}
