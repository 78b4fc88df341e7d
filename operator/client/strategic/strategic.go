// Package strategic computes strategic merge patches, which merge lists by the patch tags of Go
// types. Only Kubernetes' own kinds support them.
//
//	patch := strategic.MergeFrom(pod)
//	pod.Spec.Containers[0].Image = "web:2" // the patch has only this container
//	err := c.Patch(ctx, pod, patch)
//
// This is a separate package because it links the OpenAPI schemas, which no other part of an
// operator needs.
package strategic

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"kelson.dev/operator/client"
)

// MergeFrom returns a strategic merge patch of the changes made to obj after the call. The object
// must be typed.
func MergeFrom(obj client.Object, opts ...client.PatchOption) client.Patch {
	return client.DiffFrom(types.StrategicMergePatchType, diff, obj, opts...)
}

func diff(from, to []byte, obj client.Object) (map[string]any, error) {
	if _, dynamic := obj.(runtime.Unstructured); dynamic {
		return nil, fmt.Errorf("strategic merge needs a Go type, not %T", obj)
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(from, to, obj)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	err = utiljson.Unmarshal(data, &patch)
	return patch, err
}
