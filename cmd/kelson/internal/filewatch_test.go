package internal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/cmd/kelson/internal/filewatch"
	"kelson.dev/internal/require"
)

// Changed, new and removed source files are reported. Tests, output folders and writes of the same
// content are not.
func TestChangesOfContentAreReported(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("api/v1/types.go", "package v1")
	write("bin/manager.go", "package x")
	w, err := filewatch.Watch(dir)
	require.NoError(t, err)
	defer w.Close()
	want := func(names ...string) {
		t.Helper()
		var got []string
		for deadline := time.After(time.Minute); len(got) < len(names); {
			select {
			case more := <-w.C():
				got = append(got, more...)
			case <-deadline:
				t.Fatalf("want a report of %v, got only %v", names, got)
			}
		}
		if strings.Join(got, " ") != strings.Join(names, " ") {
			t.Fatalf("reported %v, want %v", got, names)
		}
	}
	write("api/v1/types.go", "package v1") // same content
	write("bin/manager.go", "package y")   // output
	write("api/v1/a_test.go", "package v1")
	write("api/v1/types.go", "package v1 // changed")
	want("api/v1/types.go")
	write("new/folder/a.go", "package a")
	want("new/folder/a.go")
	require.NoError(t, os.Remove(filepath.Join(dir, "new/folder/a.go")))
	want("new/folder/a.go")
}
