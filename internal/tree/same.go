package tree

import (
	"reflect"
	"slices"
)

// Same reports whether two trees are equal. Numbers of different types are not equal.
func Same(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		if len(x) > 0 && reflect.ValueOf(x).UnsafePointer() == reflect.ValueOf(y).UnsafePointer() {
			return true
		}
		for name, value := range x {
			if other, ok := y[name]; !ok || !Same(value, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, Same)
	case string:
		y, ok := b.(string)
		return ok && x == y
	case int64:
		y, ok := b.(int64)
		return ok && x == y
	case float64:
		y, ok := b.(float64)
		return ok && x == y
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case nil:
		return b == nil
	}
	return false
}

// Differ reports whether two trees certainly differ: one has a member or element that the other
// lacks, or a string, integer or boolean has a different value. Values that may be equivalent
// (missing and empty, numbers of different types) do not count as different.
func Differ(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return false
		}
		if len(x) != len(y) {
			return true
		}
		for name, value := range x {
			if other, ok := y[name]; !ok || Differ(value, other) {
				return true
			}
		}
	case []any:
		y, ok := b.([]any)
		if !ok {
			return false
		}
		if len(x) != len(y) {
			return true
		}
		for i := range x {
			if Differ(x[i], y[i]) {
				return true
			}
		}
	case string:
		y, ok := b.(string)
		return ok && x != y
	case int64:
		y, ok := b.(int64)
		return ok && x != y
	case bool:
		y, ok := b.(bool)
		return ok && x != y
	}
	return false
}
