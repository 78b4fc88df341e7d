package rest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// differ says that two custom objects are surely not the same, whatever their managedFields and resourceVersions: one has a field that
// the other has not (as when the first status is written), or a plain value is another one. Writes mostly change such a thing, and it is
// found at a fraction of what it costs to prepare a comparison. false means that they must be compared.
func differ(a, b runtime.Object) bool {
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
		if !ok || name != "metadata" && differentValue(value, other) {
			return true
		}
	}
	return false
}

func differentValue(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return false
		}
		if len(x) != len(y) {
			return true
		}
		for name, value := range x {
			if other, ok := y[name]; !ok || differentValue(value, other) {
				return true
			}
		}
	case []any:
		y, ok := b.([]any)
		if !ok {
			return false
		}
		if len(x) != len(y) {
			return true
		}
		for i := range x {
			if differentValue(x[i], y[i]) {
				return true
			}
		}
	case string:
		y, ok := b.(string)
		return ok && x != y
	case int64:
		y, ok := b.(int64)
		return ok && x != y
	case bool:
		y, ok := b.(bool)
		return ok && x != y
	}
	return false
}
