package explore

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"

	"kelson.dev/internal/require"
)

// scope is the testing.TB of control planes outside of tests. Its functions that end a test panic
// with a scopeError.
type scope struct {
	testing.TB // nil; scope has all methods that testenv calls
	ctx        context.Context
	dir        string

	mu       sync.Mutex
	cleanups []func()
}

// scopeError is the error with which a scope has ended.
type scopeError struct{ text string }

func (e scopeError) Error() string { return e.text }

func (s *scope) Helper()                           {}
func (s *scope) Context() context.Context          { return s.ctx }
func (s *scope) Output() io.Writer                 { return io.Discard }
func (s *scope) Name() string                      { return "explore" }
func (s *scope) Logf(string, ...any)               {}
func (s *scope) Errorf(format string, args ...any) { s.Fatalf(format, args...) }
func (s *scope) Fatalf(format string, args ...any) { panic(scopeError{fmt.Sprintf(format, args...)}) }
func (s *scope) Fatal(args ...any)                 { panic(scopeError{fmt.Sprint(args...)}) }

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp(s.dir, "scope-")
	require.NoError(s, err)
	s.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *scope) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// end calls the cleanups, the last one first.
func (s *scope) end() {
	s.mu.Lock()
	all := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	for _, f := range slices.Backward(all) {
		f()
	}
}

// inScope calls f with a scope, ends the scope, and returns the error of f.
func inScope(ctx context.Context, dir string, f func(*scope)) (err error) {
	s := &scope{ctx: ctx, dir: dir}
	defer s.end()
	defer s.recover(&err)
	f(s)
	return nil
}

// recover turns the panic of a scope into an error. It must be deferred.
func (s *scope) recover(err *error) {
	switch v := recover().(type) {
	case nil:
	case scopeError:
		*err = v
	default:
		panic(v)
	}
}
