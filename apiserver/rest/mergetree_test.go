package rest

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"kelson.dev/internal/require"
	"kelson.dev/internal/tree"
)

// FuzzMergeTree checks that merging trees has the same result as the library's merge of documents.
func FuzzMergeTree(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":1,"b":{"c":2}}`, `{"a":null,"b":{"d":3,"c":null}}`}, {`{"a":[1]}`, `{"a":{"b":null,"c":{"d":null}}}`},
		{`{"a":null}`, `{"a":{"b":null}}`},
		{`{"a":{}}`, `{"a":[1,{"b":2}]}`}, {`{}`, `{"a":[null]}`}, {`{"a":{"b":1}}`, `{"a":"x"}`},
		{`{"a":"x"}`, `{"a":{}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, document, patch string) {
		object, err := tree.Parse([]byte(document), nil)
		if err != nil {
			return
		}
		with, err := tree.Parse([]byte(patch), nil)
		if err != nil || !tree.Merge(object, with) {
			return
		}
		want, err := jsonpatch.MergePatch([]byte(document), []byte(patch))
		require.NoErrorf(t, err, "the library refuses")
		var wanted map[string]any
		require.NoError(t, json.Unmarshal(want, &wanted))
		got, err := json.Marshal(object)
		require.NoError(t, err)
		var back map[string]any
		require.NoError(t, json.Unmarshal(got, &back))
		if !tree.Same(back, wanted) {
			t.Errorf("%s with %s is %s, want %s", document, patch, got, want)
		}
	})
}
