package flags

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// The file of the audit log is known from the flags, before the server that writes it starts.
func TestAuditFile(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--audit-log-path=a.log"}, ""}, // records nothing
		{[]string{"--audit-log-path=a.log", "--audit-policy-file=p.yaml"}, "a.log"},
		{[]string{"--audit-log-path=-", "--audit-policy-file=p.yaml"}, ""},
		{[]string{"--audit-log-path=a.log", "--audit-policy-file=p.yaml", "--audit-log-format=legacy"}, ""},
	} {
		var g Gates
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		g.audit.AddFlags(f)
		require.NoError(t, f.Parse(test.args))
		assert.Equalf(t, g.AuditFile(), test.want, "%v", test.args)
	}
}

// --audit-log empties its file, and leaves no policy behind.
func TestAuditLogFlag(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	log := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(log, []byte("old"), 0o600))
	var g Gates
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	g.AddAuditLogFlag(f)
	require.NoError(t, f.Parse([]string{"--audit-log", log}))
	var cfg controlplane.Config
	require.NoError(t, g.audit.Apply(&cfg))
	if cfg.Audit.Policy == nil || cfg.Audit.Sink == nil || g.AuditFile() != log {
		t.Errorf("the log is not configured: %+v, %s", cfg.Audit, g.AuditFile())
	}
	require.NoError(t, g.Close())
	if text, err := os.ReadFile(log); err != nil || len(text) > 0 {
		t.Errorf("the log has %q: %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	g = Gates{}
	f = pflag.NewFlagSet("", pflag.ContinueOnError)
	g.AddAuditLogFlag(f)
	require.NoError(t, f.Parse([]string{"--audit-log", filepath.Join(log, "x")}))
	if err := g.audit.Apply(&cfg); err == nil {
		t.Error("a file that cannot be created is not an error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind after an error: %v %v", left, err)
	}
}
