package jsonpatch_test

import (
	"strings"
	"testing"

	"kelson.dev/server/jsonpatch"
)

// API-04: operations on the whole document that say nothing of a value fail like others.
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
		if err != nil {
			t.Fatal(err)
		}
		after, err := ops.Apply([]byte(`{"a":1}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %q", patch, after, err, want)
		}
	}
}
