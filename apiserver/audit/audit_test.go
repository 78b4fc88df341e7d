package audit_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"kelson.dev/apiserver/audit"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func config(t *testing.T) audit.Config {
	t.Helper()
	cfg := audit.Defaults()
	cfg.PolicyFile = filepath.Join(t.TempDir(), "policy.yaml")
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	require.NoError(t, os.WriteFile(cfg.PolicyFile, []byte(policy), 0o600))
	return cfg
}

// Rotation does not lose or split events, and rotated files are compressed and deleted.
func TestRotation(t *testing.T) {
	cfg := config(t)
	dir := t.TempDir()
	cfg.Log.Path, cfg.Log.MaxSize, cfg.Log.MaxBackups, cfg.Log.Compress = filepath.Join(dir, "logs", "audit.log"), 1, 0,
		true
	trail, err := audit.Open(cfg)
	require.NoError(t, err)
	const writers, each = 4, 16
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for i := range each {
				trail.ProcessEvents(&auditinternal.Event{Level: auditinternal.LevelMetadata,
					RequestURI: fmt.Sprintf("/%d/%d/", n, i) + strings.Repeat("x", 100_000)})
			}
		})
	}
	all.Wait()
	require.NoError(t, trail.Close())
	entries, err := os.ReadDir(filepath.Join(dir, "logs"))
	require.NoError(t, err)
	var text strings.Builder
	zipped := 0
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, "logs", e.Name()))
		require.NoError(t, err)
		if strings.HasSuffix(e.Name(), ".gz") {
			zipped++
			r, err := gzip.NewReader(bytes.NewReader(raw))
			require.NoError(t, err)
			raw, err = io.ReadAll(r)
			require.NoError(t, err)
		}
		if len(raw) > 1<<20 || !bytes.HasSuffix(raw, []byte("}\n")) {
			t.Errorf("%s: %d bytes, or not whole", e.Name(), len(raw))
		}
		text.Write(raw)
	}
	if zipped != len(entries)-1 || zipped < 5 {
		t.Errorf("%d of %d files are compressed", zipped, len(entries))
	}
	for n := range writers {
		for i := range each {
			if c := strings.Count(text.String(), fmt.Sprintf(`"/%d/%d/x`, n, i)); c != 1 {
				t.Errorf("event %d/%d occurs %d times", n, i, c)
			}
		}
	}

	cfg.Log.MaxBackups = 2
	trail, err = audit.Open(cfg)
	require.NoError(t, err)
	for range 12 {
		trail.ProcessEvents(&auditinternal.Event{RequestURI: strings.Repeat("x", 100_000)})
	}
	require.NoError(t, trail.Close())
	entries, _ = os.ReadDir(filepath.Join(dir, "logs"))
	assert.Equalf(t, len(entries), 3, "files")
}

// The oldest file is deleted first even if the clock goes backwards.
func TestRotationWhenTheClockGoesBack(t *testing.T) {
	cfg := config(t)
	dir := t.TempDir()
	cfg.Log.Path, cfg.Log.MaxSize, cfg.Log.MaxBackups = filepath.Join(dir, "audit.log"), 1, 2
	err := os.WriteFile(filepath.Join(dir, "audit-2999-01-02T15-04-05.000.log"), []byte("written first\n"),
		0o600)
	require.NoError(t, err)
	trail, err := audit.Open(cfg)
	require.NoError(t, err)
	for i := range 35 { // three files and some
		trail.ProcessEvents(&auditinternal.Event{RequestURI: fmt.Sprintf("/%d/", i) + strings.Repeat("x", 100_000)})
	}
	require.NoError(t, trail.Close())
	var text strings.Builder
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		text.Write(raw)
	}
	if len(entries) != 3 || strings.Contains(text.String(), "written first") ||
		!strings.Contains(text.String(), `"/34/`) || !strings.Contains(text.String(), `"/15/`) {
		t.Errorf("%d files: %v", len(entries), entries)
	}
}

// The legacy format is written to standard output. Invalid settings are refused, and only the mode
// blocking-strict returns a failure to store an event.
func TestFormatsAndModes(t *testing.T) {
	var out bytes.Buffer
	cfg := config(t)
	cfg.Log.Path, cfg.Log.Format, cfg.Stdout = "-", "legacy", &out
	trail, err := audit.Open(cfg)
	require.NoError(t, err)
	trail.ProcessEvents(&auditinternal.Event{AuditID: "id", Verb: "get"})
	if err := trail.Close(); err != nil || !strings.Contains(out.String(), ` AUDIT: id="id"`) {
		t.Errorf("%v %q", err, out.String())
	}
	for name, change := range map[string]func(*audit.Config){
		"format":  func(c *audit.Config) { c.Log.Format = "xml" },
		"mode":    func(c *audit.Config) { c.Log.Delivery.Mode = "sometimes" },
		"maxage":  func(c *audit.Config) { c.Log.MaxAge = -1 },
		"buffer":  func(c *audit.Config) { c.Log.Delivery.Mode = audit.ModeBatch; c.Log.Delivery.Batch.BufferSize = 0 },
		"policy":  func(c *audit.Config) { c.PolicyFile += "x" },
		"webhook": func(c *audit.Config) { c.Webhook.ConfigFile = "nowhere" },
	} {
		cfg := config(t)
		cfg.Log.Path, cfg.Stdout = "-", &out
		change(&cfg)
		if _, err := audit.Open(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, mode := range audit.Modes() {
		cfg := config(t)
		cfg.Log.Path, cfg.Stdout, cfg.Log.Delivery.Mode = "-", failing{}, mode
		trail, err := audit.Open(cfg)
		require.NoError(t, err)
		ok := trail.ProcessEvents(&auditinternal.Event{})
		assert.Equalf(t, ok, mode != audit.ModeBlockingStrict, "%s: a failure to store", mode)
		assert.NoError(t, trail.Close())
	}
	if trail, err := audit.Open(audit.Defaults()); trail != nil || err != nil {
		t.Errorf("no audit was configured: %v %v", trail, err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
