// Package assert compares values in tests. Its messages say what a test got and what it wants. A
// test continues after a check that fails; those of package require end it.
//
//	assert.Equal(t, len(list.Items), 2)
//	assert.Equalf(t, pod.Status.Phase, "Running", "the phase of %s", pod.Name)
//
// What the test got comes before what it wants. Functions whose names end in f put a formatted text
// before the message, which says what was compared.
package assert

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Equal reports an error if got is not equal to want.
func Equal[T comparable](t testing.TB, got, want T) {
	if got != want {
		t.Helper()
		t.Error(Difference(got, want))
	}
}

// Equalf is Equal with a text before the message.
func Equalf[T comparable](t testing.TB, got, want T, format string, args ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%s: %s", fmt.Sprintf(format, args...), Difference(got, want))
	}
}

// Slice reports an error if got and want have different elements. A nil slice is equal to an empty
// one.
func Slice[S ~[]E, E comparable](t testing.TB, got, want S) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Error(Difference(got, want))
	}
}

// Slicef is Slice with a text before the message.
func Slicef[S ~[]E, E comparable](t testing.TB, got, want S, format string, args ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Errorf("%s: %s", fmt.Sprintf(format, args...), Difference(got, want))
	}
}

// Deep reports an error if reflect.DeepEqual finds a difference between got and want.
func Deep[T any](t testing.TB, got, want T) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Error(Difference(got, want))
	}
}

// Deepf is Deep with a text before the message.
func Deepf[T any](t testing.TB, got, want T, format string, args ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Errorf("%s: %s", fmt.Sprintf(format, args...), Difference(got, want))
	}
}

// Len reports an error if got does not have want elements.
func Len[S ~[]E, E any](t testing.TB, got S, want int) {
	if len(got) != want {
		t.Helper()
		t.Errorf("got %d elements, want %d: %s", len(got), want, shown(got))
	}
}

// Lenf is Len with a text before the message.
func Lenf[S ~[]E, E any](t testing.TB, got S, want int, format string, args ...any) {
	if len(got) != want {
		t.Helper()
		t.Errorf("%s: got %d elements, want %d: %s", fmt.Sprintf(format, args...), len(got), want, shown(got))
	}
}

// Contains reports an error if text does not contain part.
func Contains(t testing.TB, text, part string) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%q is missing in: %s", part, text)
	}
}

// Containsf is Contains with a text before the message.
func Containsf(t testing.TB, text, part, format string, args ...any) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%s: %q is missing in: %s", fmt.Sprintf(format, args...), part, text)
	}
}

// NoError reports err if it is not nil.
func NoError(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
	}
}

// NoErrorf is NoError with a text before the message.
func NoErrorf(t testing.TB, err error, format string, args ...any) {
	if err != nil {
		t.Helper()
		t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// ErrorIs reports an error if err does not wrap want.
func ErrorIs(t testing.TB, err, want error) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("got error %v, want %v", err, want)
	}
}

// ErrorIsf is ErrorIs with a text before the message.
func ErrorIsf(t testing.TB, err, want error, format string, args ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%s: got error %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// ErrorContains reports an error if err is nil, or its text does not contain part.
func ErrorContains(t testing.TB, err error, part string) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("got error %v, want one with %q", err, part)
	}
}

// ErrorContainsf is ErrorContains with a text before the message.
func ErrorContainsf(t testing.TB, err error, part, format string, args ...any) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("%s: got error %v, want one with %q", fmt.Sprintf(format, args...), err, part)
	}
}

// Difference returns the message for values that are not equal. Texts of several lines stand below
// each other.
func Difference(got, want any) string {
	g, w := shown(got), shown(want)
	if strings.Contains(g+w, "\n") {
		return fmt.Sprintf("got\n%s\nwant\n%s", g, w)
	}
	return fmt.Sprintf("got %s, want %s", g, w)
}

// shown returns a value as messages show it: texts of one line in quotes.
func shown(v any) string {
	text := fmt.Sprintf("%+v", v)
	if _, list := v.([]string); list || reflect.ValueOf(v).Kind() == reflect.String && !strings.Contains(text, "\n") {
		return fmt.Sprintf("%q", v)
	}
	return text
}
