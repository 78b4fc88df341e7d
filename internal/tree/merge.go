package tree

// Merge applies a JSON merge patch (RFC 7386) to an object. It changes the object, which then
// shares parts with the patch. It does nothing and returns false if a list in the patch contains
// nulls, which libraries treat differently.
func Merge(object, patch map[string]any) bool {
	if nullsInLists(patch, false) {
		return false
	}
	merge(object, patch)
	return true
}

func merge(object, patch map[string]any) {
	for name, value := range patch {
		if value == nil {
			delete(object, name)
			continue
		}
		inner, ok := value.(map[string]any)
		if !ok {
			object[name] = value
			continue
		}
		if into, ok := object[name].(map[string]any); ok {
			merge(into, inner)
			continue
		}
		prune(inner)
		object[name] = inner
	}
}

func prune(patch map[string]any) {
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(patch, name)
		case map[string]any:
			prune(v)
		}
	}
}

func nullsInLists(value any, inList bool) bool {
	switch v := value.(type) {
	case nil:
		return inList
	case map[string]any:
		for _, inner := range v {
			if nullsInLists(inner, inList) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if nullsInLists(inner, true) {
				return true
			}
		}
	}
	return false
}
