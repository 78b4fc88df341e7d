package explore

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// reordered returns the fields in which two versions differ although their fields have the same
// values: lists with the same elements in another order, as from the keys of a Go map.
func reordered(one, other string) []string {
	var a, b any
	if json.Unmarshal([]byte(one), &a) != nil || json.Unmarshal([]byte(other), &b) != nil {
		return nil
	}
	return reorderedIn("", a, b)
}

func reorderedIn(path string, a, b any) (fields []string) {
	switch a := a.(type) {
	case map[string]any:
		b, _ := b.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(a)) {
			within := key
			if path != "" {
				within = path + "." + key
			}
			fields = append(fields, reorderedIn(within, a[key], b[key])...)
		}
	case []any:
		b, _ := b.([]any)
		if !reflect.DeepEqual(a, b) && sameElements(a, b) {
			return []string{path + ": the same elements in another order"}
		}
		for i := range min(len(a), len(b)) {
			fields = append(fields, reorderedIn(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])...)
		}
	}
	return fields
}

// sameElements reports whether two lists have the same elements.
func sameElements(a, b []any) bool {
	left := slices.Clone(b)
	for _, x := range a {
		i := slices.IndexFunc(left, func(y any) bool { return reflect.DeepEqual(x, y) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return len(left) == 0
}
