package fastpath_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/fastpath/trees"
)

// TestDiffer also checks that Differ reports a difference only if DeepEqual does.
func TestDiffer(t *testing.T) {
	spec := func(v any) map[string]any {
		return map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "spec": v}
	}
	for name, tt := range map[string]struct {
		a, b map[string]any
		want bool
	}{
		"the same": {spec("x"), spec("x"), false},
		"another revision": {spec("x"), map[string]any{"metadata": map[string]any{"resourceVersion": "2"}, "spec": "x"},
			false},
		"a value": {spec("x"), spec("y"), true},
		"first status": {spec("x"), map[string]any{"metadata": map[string]any{}, "spec": "x",
			"status": map[string]any{}}, true},
		"another name":    {spec(map[string]any{"a": "x"}), spec(map[string]any{"b": "x"}), true},
		"null and none":   {spec(map[string]any{"a": nil}), spec(map[string]any{}), true},
		"longer":          {spec([]any{"x"}), spec([]any{"x", "y"}), true},
		"nil and empty":   {spec([]any(nil)), spec([]any{}), false},
		"kinds of number": {spec(int64(1)), spec(float64(1)), false},
	} {
		a, b := &unstructured.Unstructured{Object: tt.a}, &unstructured.Unstructured{Object: tt.b}
		if trees.Differ(a, b) != tt.want || trees.Differ(b, a) != tt.want {
			t.Errorf("%s: want %v", name, tt.want)
		}
		if tt.want && equality.Semantic.DeepEqual(tt.a, tt.b) {
			t.Errorf("%s: they are the same", name)
		}
	}
}
