package managedfields

import "time"

// Exact reports whether a conversion of an entry of managedFields to its Go type and back would not
// change it.
func (c *Cache) Exact(entry any) bool {
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
			if word, ok := value.(string); !ok || !ExactTime(word) {
				return false
			}
		case "fieldsV1":
			if tree, ok := value.(map[string]any); !ok || !c.fromCache(tree) && !onlyMaps(tree) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// ExactTime reports whether a conversion of a time to metav1.Time and back would not change it, and
// it is not the zero time.
func ExactTime(word string) bool {
	_, ok := exactTime(word)
	return ok
}

func exactTime(word string) (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339, word)
	return t, err == nil && !t.IsZero() && t.UTC().Format(time.RFC3339) == word
}
