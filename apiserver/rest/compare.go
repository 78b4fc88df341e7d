package rest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/tree"
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
		if !ok || name != "metadata" && tree.Differ(value, other) {
			return true
		}
	}
	return false
}
