package crd

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// detach removes managedFields from an object and returns them, if they have exactly the form that the server writes. Normalizing them
// would be most of the work on metadata. Otherwise it returns nil and leaves them in the object.
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

// attach puts back what detach returned.
func attach(u *unstructured.Unstructured, list []any) {
	if list == nil {
		return
	}
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		metadata["managedFields"] = list
	}
}
