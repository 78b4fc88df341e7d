// Package require has the checks that tests of many packages share. A check that fails ends the
// test.
package require

import (
	"testing"
	"time"
)

// NoError fails the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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
