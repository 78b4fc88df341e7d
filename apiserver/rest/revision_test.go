package rest

import (
	"encoding/json"
	"reflect"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func TestSetRevision(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", `{"metadata":{"name":"a","resourceVersion":"7"}}`,
			`{"metadata":{"name":"a","resourceVersion":"123"}}`},
		{"not the one in an annotation", `{"spec":{"resourceVersion":"1"},"metadata":{"annotations":{"resourceVersion":"2","x":"\"}"},"resourceVersion":"7"},"z":1}`,
			`{"spec":{"resourceVersion":"1"},"metadata":{"annotations":{"resourceVersion":"2","x":"\"}"},"resourceVersion":"123"},"z":1}`},
		{"none", `{"metadata":{"name":"a"}}`, `{"metadata":{"name":"a"}}`},
		{"no metadata", `{"a":[1,2,{"metadata":{"resourceVersion":"1"}}]}`,
			`{"a":[1,2,{"metadata":{"resourceVersion":"1"}}]}`},
		{"not an object", `[]`, `[]`},
		{"broken", `{"metadata":{"resourceVersion":"`, `{"metadata":{"resourceVersion":"`},
	} {
		assert.Equalf(t, string(setRevision([]byte(c.in), "123")), c.want, "%s", c.name)
	}
}

func TestSameButRevision(t *testing.T) {
	a := []byte(`{"metadata":{"resourceVersion":"7","x":1}}`)
	if !sameButRevision(a, []byte(`{"metadata":{"resourceVersion":"1234","x":1}}`)) {
		t.Error("objects that differ only in the revision are not considered the same")
	}
	if sameButRevision(a, []byte(`{"metadata":{"resourceVersion":"7","x":2}}`)) {
		t.Error("x differs")
	}
}

// FuzzSetRevision compares the scanner with encoding/json.
func FuzzSetRevision(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a\\","resourceVersion":"7"},"spec":{"a":[1,true,null,"x"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out := setRevision(data, "123") // must not panic on any input
		var before, after map[string]any
		if json.Unmarshal(data, &before) != nil {
			return
		}
		require.NoErrorf(t, json.Unmarshal(out, &after), "%s became %s", data, out)
		if reflect.DeepEqual(before, after) {
			return
		}
		meta, ok := after["metadata"].(map[string]any)
		if !ok || meta["resourceVersion"] != "123" {
			t.Fatalf("%s became %s", data, out)
		}
	})
}
