package webhook_test

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/webhook"
)

// The patch has only the differences, and keeps fields that the type lacks.
func TestDiff(t *testing.T) {
	for _, tt := range []struct{ name, raw, before, after, want string }{
		{"nothing", `{"a":1}`, `{"a":1,"status":{}}`, `{"a":1,"status":{}}`, `null`},
		{"one field", `{"spec":{"a":1,"b":2}}`, `{"spec":{"a":1,"b":2}}`, `{"spec":{"a":1,"b":3}}`,
			`[{"op":"replace","path":"/spec/b","value":3}]`},
		{"fields that the type lacks stay", `{"spec":{"a":1,"new":2}}`, `{"spec":{"a":1}}`, `{"spec":{"a":1,"b":3}}`,
			`[{"op":"add","path":"/spec/b","value":3}]`},
		{"the zero value of a struct is omitted", `{}`, `{"spec":{},"status":{}}`, `{"spec":{"a":1},"status":{}}`,
			`[{"op":"add","path":"/spec","value":{"a":1}}]`},
		{"removed", `{"a":1,"b":2}`, `{"a":1,"b":2,"c":0}`, `{"a":1}`, `[{"op":"remove","path":"/b"}]`},
		{"null", `{"a":null}`, `{}`, `{"a":{"b":1}}`, `[{"op":"replace","path":"/a","value":{"b":1}}]`},
		{"names are escaped", `{"a":{}}`, `{"a":{}}`, `{"a":{"x/y~z":"v"}}`,
			`[{"op":"add","path":"/a/x~1y~0z","value":"v"}]`},
		{"big integers", `{"a":9007199254740993}`, `{"a":9007199254740993}`, `{"a":9007199254740995}`,
			`[{"op":"replace","path":"/a","value":9007199254740995}]`},
		{"inserted", `{"l":[{"n":"b"}]}`, `{"l":[{"n":"b"}]}`, `{"l":[{"n":"a"},{"n":"b"}]}`,
			`[{"op":"add","path":"/l/0","value":{"n":"a"}}]`},
		{"appended", `{"l":["a"]}`, `{"l":["a"]}`, `{"l":["a","b"]}`, `[{"op":"add","path":"/l/1","value":"b"}]`},
		{"taken out", `{"l":["a","b","c"]}`, `{"l":["a","b","c"]}`, `{"l":["a","c"]}`,
			`[{"op":"remove","path":"/l/1"}]`},
		{"in an item", `{"l":[{"n":"a","x":1},{"n":"b"}]}`, `{"l":[{"n":"a"},{"n":"b"}]}`,
			`{"l":[{"n":"a","p":2},{"n":"b"}]}`,
			`[{"op":"add","path":"/l/0/p","value":2}]`},
		{"another type", `{"a":[1]}`, `{"a":[1]}`, `{"a":"x"}`, `[{"op":"replace","path":"/a","value":"x"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			patch, err := webhook.Diff([]byte(tt.raw), json.RawMessage(tt.before), json.RawMessage(tt.after))
			must(t, err)
			got, err := json.Marshal(patch)
			must(t, err)
			assert.Equal(t, string(got), tt.want)
		})
	}
}

// For any two documents, the patch converts the first to the second.
func FuzzDiff(f *testing.F) {
	f.Add(`{"a":[1,2,{"b":null}],"c":{}}`, `{"a":[2,{"b":1}],"d":"x"}`)
	f.Add(`{"l":[[],[1],{}]}`, `{"l":[[1],[],{"a":[]}]}`)
	f.Add(`{"":{"":1}}`, `{"":{"":2,"/":3}}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		var b, a map[string]any
		if json.Unmarshal([]byte(before), &b) != nil || json.Unmarshal([]byte(after), &a) != nil || b == nil ||
			a == nil {
			t.Skip()
		}
		raw, err := json.Marshal(b)
		must(t, err)
		patch, err := webhook.Diff(raw, b, a)
		must(t, err)
		data, err := json.Marshal(patch)
		must(t, err)
		applied := raw
		if len(patch) > 0 {
			p, err := jsonpatch.DecodePatch(data)
			must(t, err)
			applied, err = p.Apply(raw)
			require.NoErrorf(t, err, "%s does not fit %s", data, raw)
		}
		var got map[string]any
		must(t, json.Unmarshal(applied, &got))
		assert.Deepf(t, got, a, "%s makes %s of %s", data, applied, raw)
	})
}

var must = require.NoError
