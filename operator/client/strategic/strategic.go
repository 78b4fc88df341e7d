// Package strategic makes strategic merge patches, in which lists are merged as the tags of Go types say. Kubernetes' own kinds know them.
//
//	patch := strategic.MergeFrom(pod)
//	pod.Spec.Containers[0].Image = "web:2" // of the list, only this container is sent
//	err := c.Patch(ctx, pod, patch)
//
// A package of its own: what it takes is the schemas of OpenAPI, which no other part of an operator needs in its program.
package strategic

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"kelson.dev/operator/client"
)

// MergeFrom is a strategic merge patch of what changes in an object from now on. The object must be typed.
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
