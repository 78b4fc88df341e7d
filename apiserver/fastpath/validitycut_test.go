package fastpath_test

import (
	"fmt"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/apiserver/fastpath/validity"
)

// Cut keeps n elements that are not certainly valid and everything before them, or the whole value
// if it has no more.
func TestCut(t *testing.T) {
	words := spec.ArrayProperty(spec.StringProperty())
	schema := validity.Compile(&spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"object"},
		Properties: map[string]spec.Schema{
			"list": *words, "lists": *spec.ArrayProperty(words), "map": *spec.MapProperty(spec.StringProperty()),
		},
	}})
	list := func(valid, wrong int) (out []any) {
		for i := range valid {
			out = append(out, fmt.Sprint(i))
		}
		for i := range wrong {
			out = append(out, int64(i))
		}
		return out
	}
	members := map[string]any{"good": "x"}
	for i := range 1000 {
		members[fmt.Sprint(i)] = int64(i)
	}
	var lists []any
	for range 100 {
		lists = append(lists, list(1, 10))
	}
	for _, test := range []struct {
		name  string
		value map[string]any
		size  func(map[string]any) int
		want  int
		cut   bool
	}{
		{"few", map[string]any{"list": list(5, 10)}, func(v map[string]any) int {
			return len(v["list"].([]any))
		}, 15, false},
		{"many", map[string]any{"list": list(5, 1000)}, func(v map[string]any) int {
			return len(v["list"].([]any))
		}, 105, true},
		{"members", map[string]any{"map": members}, func(v map[string]any) int {
			return len(v["map"].(map[string]any))
		}, 101, true},
		{"lists in a list", map[string]any{"lists": lists}, func(v map[string]any) (n int) {
			for _, l := range v["lists"].([]any) {
				n += len(l.([]any)) - 1
			}
			return n
		}, 100, true},
	} {
		part, cut := schema.Cut(test.value, 100)
		got := test.size(part.(map[string]any))
		if cut != test.cut || got > test.want || got < test.want-20 {
			t.Errorf("%s: %d, cut %v; want %d, %v", test.name, got, cut, test.want, test.cut)
		}
	}
}
