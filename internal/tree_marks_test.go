package internal_test

import (
	"encoding/json"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/tree"
)

func TestMarks(t *testing.T) {
	for _, test := range []struct{ data, want string }{
		{``, ``},
		{`{"a":[1,{"b":"x"}],"c":null}`, `{:[,{:}],:}`},
		{`{"a{[":"}],:\"{é\\"}`, `{:}`},
		{`{"open`, `{`},
		{`{"open\`, `{`},
		{`}]"` + "\xff" + `,",`, `}],`},
	} {
		got, last := "", -1
		for at, mark := range tree.Marks([]byte(test.data)) {
			if at <= last || test.data[at] != mark {
				t.Errorf("%q: %c at %d", test.data, mark, at)
			}
			got, last = got+string(mark), at
		}
		assert.Equalf(t, got, test.want, "%q", test.data)
	}
	for range tree.Marks([]byte(`{}`)) { // stops
		break
	}
}

func TestMember(t *testing.T) {
	for _, test := range []struct {
		data, name string
		want       string // the beginning of the value; empty if there is none
		err        bool
	}{
		{`{"x":{"a":1},"a" : [2] , then garbage`, "a", `[2] , then garbage`, false},
		{`{"a\u0062":1,"ab":2}`, "ab", `2}`, false},
		{`{"b":"\"a\":1"}`, "a", ``, false},
		{`{}`, "a", ``, false},
		{`[]`, "a", ``, true},
		{`{"b":1`, "a", ``, true},
		{`{"b":"é` + "\xff" + `","a":1}`, "a", ``, true},
	} {
		p := tree.Parser{Data: []byte(test.data)}
		found, err := p.Member(test.name)
		if found != (test.want != "") || (err != nil) != test.err || found && test.data[p.At:] != test.want {
			t.Errorf("%s: %v, %v, at %q", test.data, found, err, test.data[p.At:])
		}
	}
}

// FuzzMarks compares the marks of a document with the objects and arrays that encoding/json finds.
func FuzzMarks(f *testing.F) {
	f.Add([]byte(widget))
	f.Add([]byte(`["\\",{"\"":[]},"\u0022{"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		marks, want := map[byte]int{}, map[byte]int{}
		for _, mark := range tree.Marks(data) { // must not panic on any input
			marks[mark]++
		}
		var value any
		if json.Unmarshal(data, &value) != nil || !json.Valid(data) {
			return
		}
		if count(value, want); marks['{'] < want['{'] || marks['['] < want['['] || marks['{'] != marks['}'] ||
			marks['['] != marks[']'] {
			t.Errorf("%s: %v, want at least %v", data, marks, want)
		}
	})
}

// count counts objects and arrays; equal names hide members, so there may be more.
func count(value any, counts map[byte]int) {
	switch v := value.(type) {
	case map[string]any:
		counts['{']++
		for _, member := range v {
			count(member, counts)
		}
	case []any:
		counts['[']++
		for _, element := range v {
			count(element, counts)
		}
	}
}
