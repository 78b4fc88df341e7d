package crd

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// detach takes managedFields out of an object if they have the exact form that the server itself gives them, so that they need not be brought
// into it: that would be most of the work on metadata. nil: they stay, for whoever knows what to do with them.
func (c *compiled) detach(u *unstructured.Unstructured) []any {
	metadata, _ := u.Object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	if len(list) == 0 || c.noFastPaths {
		return nil
	}
	for _, entry := range list {
		if !c.fields.Exact(entry) {
			return nil
		}
	}
	delete(metadata, "managedFields")
	return list
}

// attach puts them back.
func attach(u *unstructured.Unstructured, list []any) {
	if list == nil {
		return
	}
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		metadata["managedFields"] = list
	}
}
