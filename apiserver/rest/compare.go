package rest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/tree"
)

// differ reports that two unstructured objects certainly differ outside of metadata: one has a
// field that the other lacks (as after the first write of status), or a scalar differs. Most writes
// change such a field, and differ costs a fraction of a full comparison. false means that a full
// comparison must decide.
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
