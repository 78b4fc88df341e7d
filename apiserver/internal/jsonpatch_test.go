package internal_test

import (
	"strings"
	"testing"

	"kelson.dev/apiserver/internal/jsonpatch"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Operations on the whole document without a value fail like others.
func TestNoValue(t *testing.T) {
	for patch, want := range map[string]string{
		`[{"op":"test","path":""}]`:                     "test failed",
		`[{"op":"replace","path":""}]`:                  "replace operation value must be object or array",
		`[{"op":"test","path":"","value":{"a":1}}]`:     "",
		`[{"op":"test","path":"","value":{"a":2}}]`:     "test failed",
		`[{"op":"replace","path":"","value":{"b":[]}}]`: "",
		`[{"op":"remove","path":""}]`:                   "doc is missing path",
	} {
		ops, err := jsonpatch.Decode([]byte(patch))
		require.NoError(t, err)
		after, err := ops.Apply([]byte(`{"a":1}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %q", patch, after, err, want)
		}
	}
}

// Operations that would copy gigabytes of lists are refused. As many on a short list, and a few on
// a long one, are not.
func TestTooLong(t *testing.T) {
	list := func(n int) string { return `{"a":"[,,\"[","l":[` + strings.Repeat(`"x",`, n) + `"x"]}` }
	operations := func(n int, value string) string {
		return "[" + strings.Repeat(`{"op":"add","path":"/l/0","value":`+value+`},`, n-1) +
			`{"op":"add","path":"/l/0","value":1}]`
	}
	for _, test := range []struct {
		name, before, patch string
		want                bool
	}{
		{"many on a long list", list(200_000), operations(10_000, "1"), true},
		{"many on a short list", list(100), operations(10_000, "1"), false},
		{"few on a long list", list(200_000), operations(100, "1"), false},
		{"many on a long string", `{"l":[],"a":"` + strings.Repeat("[,", 200_000) + `"}`, operations(10_000, "1"),
			false},
		{"a long list in the patch", `{}`, `[{"op":"add","path":"/l","value":[` + strings.Repeat("1,", 200_000) +
			`1]},` + operations(10_000, "1")[1:], true},
	} {
		patch, err := jsonpatch.Decode([]byte(test.patch))
		require.NoError(t, err)
		got := jsonpatch.TooLong([]byte(test.before), []byte(test.patch), patch)
		assert.Equalf(t, got, test.want, "%s", test.name)
	}
}

// A patch is too deep only if it opens many levels of a large document. A small patch of a deep
// object, such as one that removes a finalizer, never is.
func TestTooDeep(t *testing.T) {
	nested := func(n int, value string) string {
		return strings.Repeat(`{"a":`, n) + value + strings.Repeat("}", n)
	}
	large := `"` + strings.Repeat("x", 1_400_000) + `"`
	deep := `{"metadata":{"finalizers":["a"]},"spec":` + nested(3_000, large) + `}`
	for _, test := range []struct {
		name, before, patch string
		want                bool
	}{
		{"a merge patch of metadata", deep, `{"metadata":{"finalizers":null}}`, false},
		{"a JSON patch of metadata", deep, `[{"op":"remove","path":"/metadata/finalizers"}]`, false},
		{"a merge patch at the end", deep, `{"spec":` + nested(3_000, "1") + `}`, true},
		{"a JSON patch at the end", deep, `[{"op":"replace","path":"/spec` + strings.Repeat("/a", 3_000) +
			`","value":1}]`, true},
		{"an escaped path", deep, `[{"op":"replace","path":"/spec` + strings.Repeat(`\u002fa`, 3_000) + `","value":1}]`,
			true},
		{"a path with quotes", deep, `[{"op":"replace","path":"/spec` + strings.Repeat(`/a\"`, 3_000) + `","value":1}]`,
			true},
		{"a large value in a deep object", nested(3_000, "1"),
			`[{"op":"add","path":"` + strings.Repeat("/a", 2_900) + `","value":` + large + `}]`, true},
		{"a deep patch", `{}`, nested(3_000, large), true},
		{"a flat patch", deep, `{"spec":` + large + `}`, false},
	} {
		got := jsonpatch.TooDeep([]byte(test.before), []byte(test.patch))
		assert.Equalf(t, got, test.want, "%s", test.name)
	}
}
