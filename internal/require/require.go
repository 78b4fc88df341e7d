// Package require has the checks that tests of many packages share. A check that fails ends the
// test. Those of package assert let it continue.
package require

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kelson.dev/internal/assert"
)

// NoError fails the test if err is not nil. Otherwise it costs nothing, so that loops of benchmarks
// can call it.
func NoError(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// NoErrorf is like NoError, and says in the message what failed.
func NoErrorf(t testing.TB, err error, format string, args ...any) {
	if err != nil {
		t.Helper()
		t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// Value returns a function that returns its first argument, and fails the test if the second is not
// nil:
//
//	info := require.Value[fs.FileInfo](t)(os.Stat(name))
func Value[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// patience is how long a test waits for an effect of other goroutines or processes. A machine under
// load may need seconds for what takes milliseconds.
const patience = 2 * time.Minute

// Eventually repeats holds until it returns true.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v, this does not hold: %s", patience, what)
		}
	}
}

// Success repeats try until it returns no error.
func Success(t testing.TB, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", patience, err)
		}
	}
}

// Long skips the test in the short run. why says what takes the time.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why)
	}
}

// Running calls run in a goroutine. stop ends its context, waits for it, and fails the test if it
// returns an error.
func Running(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		NoError(t, <-ended)
	}
}

// Files writes files below dir, by their slash-separated names, with the folders that they need.
func Files[T ~string | ~[]byte](t testing.TB, dir string, files map[string]T) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
}

// Body reads and closes the body of a response.
func Body(t testing.TB, resp *http.Response) []byte {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	NoError(t, err)
	return body
}

// Equal fails the test if got is not equal to want.
func Equal[T comparable](t testing.TB, got, want T) {
	if got != want {
		t.Helper()
		t.Fatal(assert.Difference(got, want))
	}
}

// Equalf is Equal with a text before the message.
func Equalf[T comparable](t testing.TB, got, want T, format string, args ...any) {
	if got != want {
		t.Helper()
		t.Fatalf("%s: %s", fmt.Sprintf(format, args...), assert.Difference(got, want))
	}
}
