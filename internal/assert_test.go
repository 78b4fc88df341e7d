package internal_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"kelson.dev/internal/assert"
)

// reported records the errors of a test.
type reported struct {
	testing.TB
	text string
}

func (r *reported) Error(args ...any)                 { r.text = fmt.Sprint(args...) }
func (r *reported) Errorf(format string, args ...any) { r.text = fmt.Sprintf(format, args...) }

// Messages show what the test got and what it wants. A check that holds reports nothing.
func TestAssertions(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for want, check := range map[string]func(t testing.TB){
		`got "a", want "b"`:                func(t testing.TB) { assert.Equal(t, "a", "b") },
		"got\na\nb\nwant\nc\nd":            func(t testing.TB) { assert.Equal(t, "a\nb", "c\nd") },
		`phase of x: got 1, want 2`:        func(t testing.TB) { assert.Equalf(t, 1, 2, "phase of %s", "x") },
		"got <nil>, want 1":                func(t testing.TB) { assert.Equal[any](t, nil, 1) },
		`got ["a"], want []`:               func(t testing.TB) { assert.Slice(t, []string{"a"}, nil) },
		"got map[a:1], want map[]":         func(t testing.TB) { assert.Deep(t, map[string]int{"a": 1}, nil) },
		"got 2 elements, want 1: [4 5]":    func(t testing.TB) { assert.Len(t, []int{4, 5}, 1) },
		`"x" is missing in: abc`:           func(t testing.TB) { assert.Contains(t, "abc", "x") },
		"read: EOF":                        func(t testing.TB) { assert.NoError(t, wrapped) },
		"got error read: EOF, want closed": func(t testing.TB) { assert.ErrorIs(t, wrapped, errors.New("closed")) },
		`got error <nil>, want one with "EOF"`: func(t testing.TB) {
			assert.ErrorContains(t, nil, "EOF")
		},
		"": func(t testing.TB) {
			assert.Equal(t, 1, 1)
			assert.Slice(t, []int{}, nil)
			assert.Deep(t, []int{1}, []int{1})
			assert.Len(t, []int{1}, 1)
			assert.Contains(t, "abc", "b")
			assert.NoError(t, nil)
			assert.ErrorIs(t, wrapped, io.EOF)
			assert.ErrorContains(t, wrapped, "EOF")
		},
	} {
		got := &reported{TB: t}
		check(got)
		assert.Equal(t, got.text, want)
	}
}
