//go:build linux

package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/component-base/metrics/legacyregistry"

	"kelson.dev/apiserver/audit"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// While the disk of the log is full, requests continue except in mode blocking-strict. No event is
// split, and recording continues when there is space again. The server logs both transitions.
func TestFullDisk(t *testing.T) {
	for _, mode := range audit.Modes() {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
				t.Skipf("SKIPPED: needs the right to mount: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
			var log bytes.Buffer
			cfg := config(t)
			cfg.Log.Path, cfg.Log.Delivery.Mode, cfg.Logger = filepath.Join(dir, "audit.log"), mode,
				slog.New(slog.NewTextHandler(&log, nil))
			trail, err := audit.Open(cfg)
			require.NoError(t, err)
			record := func(name string) bool {
				return trail.ProcessEvents(&auditinternal.Event{Level: auditinternal.LevelMetadata,
					RequestURI: "/" + name + "/" + strings.Repeat("x", 3000)})
			}
			if !record("before") {
				t.Error("the first event is refused")
			}
			if mode == audit.ModeBatch { // Close writes the buffer
				require.NoError(t, trail.Close())
				trail, err = audit.Open(cfg)
				require.NoError(t, err)
			}
			ballast := filepath.Join(dir, "ballast")
			fillDisk := func() {
				t.Helper()
				f, err := os.Create(ballast)
				require.NoError(t, err)
				defer f.Close()
				for err == nil {
					_, err = f.Write(make([]byte, 4096))
				}
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
			fillDisk()
			counted := errorsCounted(t)
			refused := 0
			for i := range 50 {
				if !record(fmt.Sprint("during-", i)) {
					refused++
				}
			}
			strict := mode == audit.ModeBlockingStrict
			assert.Equalf(t, strict, refused > 0, "%d requests are refused", refused)
			// The buffer is written concurrently with requests; the result is known only after
			// Close.
			if mode == audit.ModeBatch {
				assert.NoError(t, trail.Close())
			}
			require.NoError(t, os.Remove(ballast))
			if mode == audit.ModeBatch {
				trail, err = audit.Open(cfg)
				require.NoError(t, err)
			}
			if !record("after") {
				t.Error("the event is refused although there is space")
			}
			require.NoError(t, trail.Close())
			text, err := os.ReadFile(cfg.Log.Path)
			require.NoError(t, err)
			for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
				var event struct{ RequestURI string }
				if err := json.Unmarshal([]byte(line), &event); err != nil {
					t.Errorf("an event was split: %v, %d bytes", err, len(line))
				}
			}
			if errorsCounted(t) == counted {
				t.Error("lost events are not counted")
			}
			if !bytes.Contains(text, []byte("/before/")) || !bytes.Contains(text, []byte("/after/")) {
				t.Error("the events before and after the full disk are missing")
			}
			if n := strings.Count(log.String(), "write audit log: events are lost"); n != 1 ||
				mode != audit.ModeBatch && !strings.Contains(log.String(), "audit log is writable again") {
				t.Errorf("the log says %s", log.String())
			}
		})
	}
}

// errorsCounted returns the value of apiserver_audit_error_total of all plugins.
func errorsCounted(t *testing.T) (n float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "apiserver_audit_error_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}
