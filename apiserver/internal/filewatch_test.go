package internal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kelson.dev/apiserver/internal/filewatch"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func parse(data []byte) (string, error) {
	if string(data) == "bad" {
		return "", errors.New("bad content")
	}
	return string(data), nil
}

func write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}

func TestChangeAppliesImmediately(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	write(t, name, "one")
	var warned []error
	f, err := filewatch.Open(name, parse, func(err error) { warned = append(warned, err) })
	require.NoError(t, err)
	check := func(want string, warnings int) {
		t.Helper()
		for range 2 {
			if got := f.Get(); got != want || len(warned) != warnings {
				t.Errorf("got %q and warnings %v, want %q and %d", got, warned, want, warnings)
			}
		}
	}
	check("one", 0)
	write(t, name, "two") // same size, perhaps within the same tick of the clock
	check("two", 0)
	write(t, name, "bad")
	check("two", 1)
	write(t, name, "three")
	check("three", 1)
	require.NoError(t, os.Remove(name))
	check("three", 2)
	write(t, name, "four")
	check("four", 2)
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(name, long, long))
	check("four", 2)
	// Like a mounted ConfigMap: the name is a link, which is replaced.
	write(t, name+".next", "five")
	require.NoError(t, os.Chtimes(name+".next", long, long))
	require.NoError(t, os.Rename(name+".next", name))
	check("five", 2)
}

func TestOpenReportsInvalidFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	_, err := filewatch.Open(name, parse, nil)
	assert.ErrorIs(t, err, os.ErrNotExist)
	write(t, name, "bad")
	if _, err := filewatch.Open(name, parse, nil); err == nil {
		t.Error("accepted")
	}
}

func BenchmarkGet(b *testing.B) {
	name := filepath.Join(b.TempDir(), "f")
	require.NoError(b, os.WriteFile(name, []byte("x"), 0o600))
	long := time.Now().Add(-time.Hour)
	require.NoError(b, os.Chtimes(name, long, long))
	f, err := filewatch.Open(name, parse, nil)
	require.NoError(b, err)
	f.Get()
	for b.Loop() {
		f.Get()
	}
}
