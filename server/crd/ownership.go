package crd

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// detach takes managedFields out of an object if they have the exact form that the server itself gives them, so that they need not be brought
// into it: that would be most of the work on metadata. nil: they stay, for whoever knows what to do with them.
func (c *compiled) detach(u *unstructured.Unstructured) []any {
	metadata, _ := u.Object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	if len(list) == 0 {
		return nil
	}
	for _, entry := range list {
		if !c.exact(entry) {
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

// exact says whether an entry would come out of its Go type as it is.
func (c *compiled) exact(entry any) bool {
	fields, ok := entry.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range fields {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			if word, ok := value.(string); !ok || word == "" {
				return false
			}
		case "time":
			if word, ok := value.(string); !ok || !exactTime(word) {
				return false
			}
		case "fieldsV1":
			if tree, ok := value.(map[string]any); !ok || !c.fields.Known(tree) && !onlyMaps(value) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func exactTime(word string) bool {
	t, err := time.Parse(time.RFC3339, word)
	return err == nil && !t.IsZero() && t.UTC().Format(time.RFC3339) == word
}

func onlyMaps(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for _, value := range fields {
		if !onlyMaps(value) {
			return false
		}
	}
	return true
}
