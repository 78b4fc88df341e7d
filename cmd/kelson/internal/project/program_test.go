package project

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

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
	p := &Project{Main: "/shop/cmd"}
	link := func(result error) (file string, existed bool, release func()) {
		t.Helper()
		file, release, err := p.Link("explore.test", temp, func(file string) error {
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
		_, release, err := (&Project{Main: fmt.Sprint("/", i)}).Link("explore.test", temp, func(string) error {
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

// A second build for a command links nothing, and gives the same program. A build after a change
// leaves the former program as it is, which may still run.
func TestBuildAgain(t *testing.T) {
	require.Long(t, "links programs")
	home, dir, temp := t.TempDir(), t.TempDir(), t.TempDir()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("LocalAppData", home)
	write := func(name, content string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("go.mod", "module example.com/shop\n\ngo 1.26\n")
	p, number := &Project{Dir: dir, Main: dir}, 0
	build := func(says string) os.FileInfo {
		t.Helper()
		number++
		file := filepath.Join(temp, fmt.Sprint(number))
		require.NoError(t, p.BuildAgain(t.Context(), "dev", file))
		out, err := exec.Command(file).CombinedOutput()
		require.NoError(t, err)
		assert.Equal(t, string(out), says)
		info, err := os.Stat(file)
		require.NoError(t, err)
		return info
	}
	write("main.go", "package main\n\nfunc main() { print(1) }\n")
	first := build("1")
	if again := build("1"); !os.SameFile(first, again) && runtime.GOOS != "windows" {
		t.Error("the program was linked again")
	}
	write("main.go", "package main\n\nfunc main() { print(2) }\n")
	build("2")
	out, err := exec.Command(filepath.Join(temp, "1")).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, string(out), "1")
}
