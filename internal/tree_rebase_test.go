package internal_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/internal/tree"
)

func TestRebase(t *testing.T) {
	for name, tt := range map[string]struct{ base, old, new, want string }{
		"nothing":          {`{"a":1,"b":2}`, `{"a":1}`, `{"a":1}`, `{"a":1,"b":2}`},
		"a member":         {`{"a":1,"b":2}`, `{"a":1}`, `{"a":3}`, `{"a":3,"b":2}`},
		"a new member":     {`{"b":2}`, `{}`, `{"a":3}`, `{"a":3,"b":2}`},
		"a removed member": {`{"a":1,"b":2}`, `{"a":1}`, `{}`, `{"b":2}`},
		"zeros":            {`{"b":2}`, `{"a":0,"c":null}`, `{"a":0,"c":1}`, `{"b":2,"c":1}`},
		"nulls in the base": {`{"b":null,"l":[{"name":"a","c":null}]}`, `{"l":[{"name":"a"}]}`,
			`{"l":[{"name":"a","x":1}]}`, `{"b":null,"l":[{"name":"a","c":null,"x":1}]}`},
		"a nested object":  {`{"o":{"a":1,"b":2}}`, `{"o":{"a":1}}`, `{"o":{"a":2}}`, `{"o":{"a":2,"b":2}}`},
		"a zero object":    {`{"o":{"b":2}}`, `{}`, `{"o":{"a":2}}`, `{"o":{"a":2,"b":2}}`},
		"a removed object": {`{"o":{"a":1,"b":2}}`, `{"o":{"a":1}}`, `{}`, `{}`},
		"from null":        {`{"b":2}`, `null`, `{"a":1}`, `{"a":1,"b":2}`},
		"from nothing":     {`null`, `null`, `{"a":1}`, `{"a":1}`},
		"to null":          {`{"a":1}`, `{"a":1}`, `null`, `null`},
		"a changed element": {`[{"name":"a","x":1},{"name":"b","x":2}]`, `[{"name":"a"},{"name":"b"}]`,
			`[{"name":"a"},{"name":"b","y":1}]`, `[{"name":"a","x":1},{"name":"b","x":2,"y":1}]`},
		"elements moved": {`[{"name":"a","x":1},{"name":"b","x":2}]`, `[{"name":"a"},{"name":"b"}]`,
			`[{"name":"b","y":1},{"name":"a","y":2}]`, `[{"name":"b","x":2,"y":1},{"name":"a","x":1,"y":2}]`},
		"a removed element": {`[{"name":"a","x":1},{"name":"b","x":2}]`, `[{"name":"a"},{"name":"b"}]`,
			`[{"name":"b","y":1}]`, `[{"name":"b","x":2,"y":1}]`},
		"an added element": {`[{"name":"b","x":2}]`, `[{"name":"b"}]`, `[{"name":"a"},{"name":"b","y":1}]`,
			`[{"name":"a"},{"name":"b","x":2,"y":1}]`},
		"another element": {`[{"name":"a","x":1}]`, `[{"name":"a"}]`, `[{"name":"b"}]`, `[{"name":"b"}]`},
		"a part of its identity": {`[{"name":"a","port":1,"x":1}]`, `[{"name":"a","port":1}]`,
			`[{"name":"a","port":2}]`, `[{"name":"a","port":2,"x":1}]`},
		"elements without a name": {`[{"lit":true,"x":1},{"x":2}]`, `[{"lit":true},{}]`, `[{"lit":true},{"lit":true}]`,
			`[{"lit":true,"x":1},{"lit":true,"x":2}]`},
		"equal elements": {`[{"lit":true,"x":1},{"x":2}]`, `[{"lit":true},{}]`, `[{},{}]`,
			`[{"x":1},{"x":2}]`},
		"one of two removed": {`[{"lit":true,"x":1},{"lit":false,"x":2}]`, `[{"lit":true},{"lit":false}]`,
			`[{"lit":false}]`, `[{"lit":false,"x":2}]`},
		"conditions": {`[{"type":"Ready","status":"True","x":1}]`, `[{"type":"Ready","status":"True"}]`,
			`[{"type":"Other","status":"True"},{"type":"Ready","status":"False"}]`,
			`[{"type":"Other","status":"True"},{"type":"Ready","status":"False","x":1}]`},
		"lists of lists": {`[[{"x":1}],[{"x":2}]]`, `[[{}],[{}]]`, `[[{}],[{"a":1}]]`,
			`[[{"x":1}],[{"a":1,"x":2}]]`},
		"strings":          {`["a","b"]`, `["a","b"]`, `["b","c"]`, `["b","c"]`},
		"a different list": {`["a","b"]`, `["a"]`, `["b"]`, `["b"]`},
		"another kind":     {`{"a":{"x":1}}`, `{"a":{}}`, `{"a":"b"}`, `{"a":"b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var in [4]any
			for n, text := range []string{tt.base, tt.old, tt.new, tt.want} {
				p := tree.Parser{Data: []byte(text)}
				var err error
				in[n], err = p.Value()
				require.NoError(t, err)
			}
			got := tree.Rebase(in[0], in[1], in[2])
			if !tree.Same(got, in[3]) {
				t.Errorf("%v, want %v", got, in[3])
			}
			for n, text := range []string{tt.base, tt.old, tt.new} {
				p := tree.Parser{Data: []byte(text)}
				if before, _ := p.Value(); !tree.Same(before, in[n]) {
					t.Errorf("%s is now %v", text, in[n])
				}
			}
		})
	}
}

// Members outside of the view stay with their element, and members in the view have the requested
// values.
func TestRebaseRandomly(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		base := randomStatus(r)
		old := seen(base)
		new := seen(base).(map[string]any)
		list := new["lamps"].([]any)
		for range r.IntN(4) { // changes by a writer
			switch n := r.IntN(len(list) + 1); {
			case n == len(list) || r.IntN(3) == 0:
				list = append(list, map[string]any{"name": fmt.Sprint("new", r.IntN(1000)), "lit": true})
			case r.IntN(2) == 0:
				list = append(list[:n:n], list[n+1:]...)
			default:
				list[n].(map[string]any)["lit"] = r.IntN(2) == 0
			}
		}
		r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		new["lamps"], new["turns"] = list, int64(r.IntN(3))
		got := tree.Rebase(base, old, new)
		if !tree.Same(seen(got), new) {
			t.Fatalf("seed %d: seen is\n%v, want\n%v", seed, seen(got), new)
		}
		require.Equalf(t, got.(map[string]any)["keeper"], "Ida", "seed %d: the keeper is gone", seed)
		watts := map[any]any{}
		for _, l := range base["lamps"].([]any) {
			watts[l.(map[string]any)["name"]] = l.(map[string]any)["watts"]
		}
		for _, l := range got.(map[string]any)["lamps"].([]any) {
			if l := l.(map[string]any); l["watts"] != watts[l["name"]] {
				t.Fatalf("seed %d: %v had %v watts", seed, l, watts[l["name"]])
			}
		}
	}
}

func randomStatus(r *rand.Rand) map[string]any {
	list := []any{}
	for n := range r.IntN(5) {
		list = append(list, map[string]any{"name": fmt.Sprint(n), "watts": int64(r.IntN(100)), "lit": r.IntN(2) == 0})
	}
	return map[string]any{"lamps": list, "turns": int64(r.IntN(3)), "keeper": "Ida"}
}

// seen returns the part of an object that a type without watts and keeper decodes.
func seen(value any) any {
	switch v := value.(type) {
	case map[string]any:
		c := map[string]any{}
		for name, inner := range v {
			if name != "watts" && name != "keeper" {
				c[name] = seen(inner)
			}
		}
		return c
	case []any:
		c := []any{}
		for _, inner := range v {
			c = append(c, seen(inner))
		}
		return c
	}
	return value
}
