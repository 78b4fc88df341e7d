//go:build linux

package disk_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/internal/require"
)

// written creates a directory with two logs of three writes each.
func written(t *testing.T) (dir string, revision uint64) {
	t.Helper()
	dir = t.TempDir()
	for _, names := range [][]string{{"a", "b", "c"}, {"d", "e", "f"}} {
		s, err := quiet(dir)
		require.NoError(t, err)
		for _, name := range names {
			require.NoError(t, put(t, s, name, 100))
		}
		revision = s.Snapshot().Revision()
		require.NoError(t, s.Close())
	}
	return dir, revision
}

func logs(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) == 0 {
		t.Fatalf("logs %v, %v", names, err)
	}
	slices.Sort(names)
	return names
}

// The check and the start report writes that are missing because the end of a log, or a whole log,
// is lost. No revision is assigned again.
func TestMissingEndOfLogIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		lose   func(dir string) error
		lost   uint64
		left   []string
		report string
	}{
		"nothing": {func(string) error { return nil }, 0, []string{"a", "b", "c", "d", "e", "f"}, ""},
		"last file": {func(dir string) error { return os.Remove(logs(t, dir)[1]) }, 3, []string{"a", "b", "c"},
			"acknowledged writes are MISSING: the state ends at revision 4, but revision 7 was acknowledged before "},
		"last two frames": {func(dir string) error {
			last := logs(t, dir)[1]
			content, err := os.ReadFile(last)
			if err != nil {
				return err
			}
			second := bytes.Index(content[24:], []byte("KLOG")) + 24
			second += bytes.Index(content[second+4:], []byte("KLOG")) + 4
			return os.Truncate(last, int64(second))
		}, 2, []string{"a", "b", "c", "d"}, "at least 2 revisions are lost"},
		"in a frame": {func(dir string) error {
			last := logs(t, dir)[1]
			info, err := os.Stat(last)
			if err != nil {
				return err
			}
			return os.Truncate(last, info.Size()-30)
		}, 1, []string{"a", "b", "c", "d", "e"}, "at least 1 revisions are lost"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, revision := written(t)
			require.NoError(t, test.lose(dir))
			r, err := disk.Check(dir)
			if err != nil || r.Missing() != test.lost || r.Acknowledged != revision ||
				!strings.Contains(r.String(), test.report) {
				t.Errorf("check: %d missing, %s, %v", r.Missing(), r, err)
			}
			var log bytes.Buffer
			b, err := disk.OpenWith(dir, disk.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			s, err := store.Open(store.Config{Backend: b})
			require.NoError(t, err)
			if got := log.String(); test.report == "" && got != "" || !strings.Contains(got, test.report) {
				t.Errorf("the start logs %q", got)
			}
			if name == "in a frame" && !strings.Contains(log.String(), "removed an incomplete write") {
				t.Errorf("the start logs %q", log.String())
			}
			want := map[string]bool{}
			for _, name := range test.left {
				want[name] = true
			}
			same(t, s, want)
			// A client that has seen the newest revision must not see other writes with its number.
			if now := s.Snapshot().Revision(); now != revision {
				t.Errorf("the start is at revision %d, but %d was acknowledged", now, revision)
			}
			if _, err := s.Watch("things", revision-1); !errors.Is(err, store.ErrCompacted) {
				t.Errorf("an earlier watch: %v", err)
			}
			require.NoError(t, put(t, s, "new", 100))
			want["new"] = true
			require.NoError(t, s.Close())
			if r, err := disk.Check(dir); err != nil || r.Missing() != 0 || r.Revision != revision+1 {
				t.Errorf("after the next write: %s, %v", r, err)
			}
			if s, err = quiet(dir); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			same(t, s, want)
		})
	}
}

// The mark is also written while the store is open, for processes that are killed.
func TestMarkOfAnOpenStore(t *testing.T) {
	dir := t.TempDir()
	s, err := quiet(dir)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, put(t, s, "a", 100))
	name := filepath.Join(dir, "mark")
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if content, err := os.ReadFile(name); err == nil && len(content) == 32 && content[12] == 2 {
			return
		}
	}
	t.Error("the mark is missing")
}

// A damaged mark is ignored.
func TestDamagedMark(t *testing.T) {
	for _, content := range []string{"", "x", strings.Repeat("x", 32), strings.Repeat("\x00", 100)} {
		dir, revision := written(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "mark"), []byte(content), 0o600))
		if r, err := disk.Check(dir); err != nil || r.Missing() != 0 || r.Revision != revision {
			t.Errorf("%q: %s, %v", content, r, err)
		}
		s, err := quiet(dir)
		require.NoError(t, err)
		s.Close()
	}
}
