package explore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The program of a project stays in the user's cache while it is used. It is linked elsewhere if
// another process uses it, and again if its last link did not end. The cache is limited.
func TestLink(t *testing.T) {
	home, temp := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("LocalAppData", home)
	p := &project.Project{Main: "/shop/cmd"}
	link := func(result error) (file string, existed bool, release func()) {
		t.Helper()
		file, release, err := Link(p, "explore.test", temp, func(file string) error {
			_, err := os.Stat(file)
			existed = err == nil
			return errors.Join(os.WriteFile(file, nil, 0o600), result)
		})
		if !errors.Is(err, result) {
			t.Fatal(err)
		}
		return file, existed, release
	}
	first, existed, release := link(nil)
	if existed || filepath.Dir(first) == temp {
		t.Errorf("the first program is %s, existed: %v", first, existed)
	}
	second, _, _ := link(nil)
	assert.Equalf(t, filepath.Dir(second), temp, "a program that is in use is replaced: %s", second)
	release()
	again, existed, release := link(nil)
	if again != first || !existed {
		t.Errorf("the program is %s, want %s; existed: %v", again, first, existed)
	}
	release()
	link(errors.ErrUnsupported)
	if _, existed, release = link(nil); existed {
		t.Error("a program that was not completed is used")
	}
	release()
	for i := range kept {
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(filepath.Dir(first), "state"), old, old))
		_, release, err := Link(&project.Project{Main: fmt.Sprint("/", i)}, "explore.test", temp, func(string) error {
			return nil
		})
		require.NoError(t, err)
		release()
	}
	if states, err := filepath.Glob(filepath.Join(filepath.Dir(first), "..", "*", "state")); err != nil ||
		len(states) != kept {
		t.Errorf("%v, %v: want %d programs", states, err, kept)
	}
	if _, existed, release = link(nil); existed {
		t.Error("the program that was used first is not removed")
	}
	release()
}
