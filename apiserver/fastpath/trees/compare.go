package trees

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/tree"
)

// Differ reports whether two unstructured objects certainly differ outside of metadata: one has a
// field that the other lacks (as after the first write of status), or a scalar differs. Most
// writes change such a field, and Differ then takes 0.5 µs for an object of 1 KB instead of the
// 35 µs of a full comparison. If it returns false, a full comparison must decide.
func Differ(a, b runtime.Object) bool {
	x, ok := a.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	y, ok := b.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	if len(x.Object) != len(y.Object) {
		return true
	}
	for name, value := range x.Object {
		other, ok := y.Object[name]
		if !ok || name != "metadata" && tree.Differ(value, other) {
			return true
		}
	}
	return false
}

// SameContent reports whether two objects are equal except for metadata, as the library compares
// them.
func SameContent(next, was map[string]any) bool {
	same, differ := len(next) == len(was), len(next) != len(was)
	for name, value := range next {
		if name == "metadata" {
			continue
		}
		old, ok := was[name]
		if !ok || tree.Differ(value, old) {
			differ = true
			break
		}
		same = same && tree.Same(value, old)
	}
	if same || differ {
		return !differ
	}
	a, b := maps.Clone(next), maps.Clone(was)
	delete(a, "metadata")
	delete(b, "metadata")
	return equality.Semantic.DeepEqual(a, b)
}
