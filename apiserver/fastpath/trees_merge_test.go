package fastpath_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"kelson.dev/internal/require"
	"kelson.dev/internal/tree"

	"kelson.dev/apiserver/fastpath/trees"
)

// FuzzMergePatch checks that merged objects equal those of the library.
func FuzzMergePatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":1,"b":{"c":2}}`, `{"a":null,"b":{"d":3,"c":null}}`}, {`{"a":[1]}`, `{"a":{"b":null,"c":{"d":null}}}`},
		{`{"a":null}`, `{"a":{"b":null}}`},
		{`{"a":{}}`, `{"a":[1,{"b":2}]}`}, {`{}`, `{"a":[null]}`}, {`{"a":{"b":1}}`, `{"a":"x"}`},
		{`{"a":"x"}`, `{"a":{}}`}, {`{"a":1.50,"b":[ 1 ]}`, `{"c":"<\n"}`},
		{` { "a" : 1 , "b" : { } } `, `{"b":{"x":{"y":null}},"n":null}`}, {`{"a":1}`, `{"a":1.0}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, object, patch string) {
		if _, err := tree.Parse([]byte(object), nil); err != nil {
			return
		}
		got, ok := trees.MergePatch([]byte(object), []byte(patch))
		if !ok {
			return
		}
		want, err := jsonpatch.MergePatch([]byte(object), []byte(patch))
		require.NoErrorf(t, err, "the library rejects %s with %s", object, patch)
		if !reflect.DeepEqual(decoded(t, got), decoded(t, want)) {
			t.Errorf("%s with %s is %s, want %s", object, patch, got, want)
		}
	})
}

// decoded returns a document with its numbers as text.
func decoded(t *testing.T, data []byte) (value any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	require.NoErrorf(t, d.Decode(&value), "%s", data)
	return value
}
