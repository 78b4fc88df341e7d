package internal_test

import (
	"encoding/json"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/internal/tree"
)

// The merge applies our changes to their version, with list elements matched by type or name, and
// does not modify its arguments.
func TestThreeWay(t *testing.T) {
	for _, tt := range []struct{ name, theirs, old, new, want string }{
		{"only we changed", `{"a":1}`, `{"a":1}`, `{"a":2}`, `{"a":2}`},
		{"only they changed", `{"a":2}`, `{"a":1}`, `{"a":1}`, `{"a":2}`},
		{"different members", `{"a":2,"b":1}`, `{"a":1,"b":1}`, `{"a":1,"b":3,"c":4}`, `{"a":2,"b":3,"c":4}`},
		{"the same member", `{"a":2}`, `{"a":1}`, `{"a":3}`, `{"a":3}`},
		{"we removed", `{"a":1,"b":2}`, `{"a":1}`, `{}`, `{"b":2}`},
		{"they removed", `{}`, `{"a":1}`, `{"a":1,"b":2}`, `{"b":2}`},
		{"they removed what we changed", `{}`, `{"a":1}`, `{"a":2}`, `{"a":2}`},
		{"no status before", `{"a":{"x":1}}`, `null`, `{"a":{"y":2}}`, `{"a":{"x":1,"y":2}}`},
		{"conditions", `{"c":[{"type":"A","s":"False"},{"type":"B","s":"True"}]}`, `{"c":[{"type":"A","s":"True"}]}`,
			`{"c":[{"type":"A","s":"True"},{"type":"C","s":"True"}]}`,
			`{"c":[{"type":"A","s":"False"},{"type":"C","s":"True"},{"type":"B","s":"True"}]}`},
		{"both added one element", `[{"type":"A","x":1}]`, `[]`, `[{"type":"A","y":2}]`, `[{"type":"A","x":1,"y":2}]`},
		{"we removed an element", `[{"name":"a","x":1},{"name":"b"},{"name":"c"}]`, `[{"name":"a"},{"name":"b"}]`,
			`[{"name":"a"}]`, `[{"name":"a","x":1},{"name":"c"}]`},
		{"they removed an element", `[{"name":"b"}]`, `[{"name":"a"},{"name":"b"}]`,
			`[{"name":"a"},{"name":"b","x":1}]`, `[{"name":"b","x":1}]`},
		{"values by position", `["a","c"]`, `["a","b"]`, `["a","b","d"]`, `["a","c","d"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parse := func(text string) (v any) {
				require.NoError(t, json.Unmarshal([]byte(text), &v))
				return v
			}
			theirs, old, new := parse(tt.theirs), parse(tt.old), parse(tt.new)
			got := tree.ThreeWay(theirs, old, new)
			if !tree.Same(got, parse(tt.want)) {
				text, _ := json.Marshal(got)
				t.Errorf("got %s, want %s", text, tt.want)
			}
			if !tree.Same(theirs, parse(tt.theirs)) || !tree.Same(old, parse(tt.old)) ||
				!tree.Same(new, parse(tt.new)) {
				t.Error("ThreeWay modified an argument")
			}
		})
	}
}
