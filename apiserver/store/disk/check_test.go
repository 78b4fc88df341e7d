package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/internal/require"
)

// Check describes a sound directory without changing it. It refuses directories without state, open
// ones and damaged ones, and counts the bytes of an incomplete write.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if _, err := disk.Check(dir); err == nil || !strings.Contains(err.Error(), "is not a data directory") {
		t.Errorf("an empty directory: %v", err)
	}
	b, err := disk.OpenWith(dir, disk.Options{}) // as a restore does first
	if err == nil {
		err = b.Close()
	}
	require.NoError(t, err)
	if _, err := disk.Check(dir); err == nil || !strings.Contains(err.Error(), "has no state") {
		t.Errorf("an interrupted restore: %v", err)
	}
	s, err := openStore(dir)
	require.NoError(t, err)
	for i := range 10 {
		_, err = s.Commit(t.Context(), store.Op{Key: crashKey(i%5, 0, ""), Data: []byte(`{"metadata":{}}`),
			Expect: store.AnyRevision})
		require.NoError(t, err)
	}
	if _, err := disk.Check(dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("check while a store has the directory open: %v", err)
	}
	require.NoError(t, s.Close())
	r, err := disk.Check(dir)
	if err != nil || r.Objects != 5 || r.Revision != 11 || r.Logs != 1 || r.Batches != 10 || r.Torn != 0 ||
		!strings.HasPrefix(r.String(), "sound: 5 objects at revision 11") {
		t.Errorf("%+v %v", r, err)
	}

	require.NoError(t, os.Remove(filepath.Join(dir, "lock")))
	if r, err := disk.Check(dir); err != nil || r.Objects != 5 {
		t.Errorf("a copy without the lock: %+v %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err == nil {
		t.Error("check created a file")
	}

	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	content, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	err = os.WriteFile(logs[0], append(content[:len(content)-16:len(content)-16], "KLOGxx"...), 0o600)
	require.NoError(t, err)
	if r, err := disk.Check(dir); err != nil || r.Torn != 6 || r.Objects != 5 ||
		!strings.Contains(r.String(), "6 bytes of an incomplete write") {
		t.Errorf("%v %v", r, err)
	}
	content[100] ^= 1
	require.NoError(t, os.WriteFile(logs[0], content, 0o600))
	if _, err := disk.Check(dir); !errors.Is(err, archive.ErrDamaged) ||
		!strings.Contains(err.Error(), filepath.Base(logs[0])) {
		t.Error(err)
	}
}
