package managedfields

import (
	"maps"
	"reflect"
	"slices"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/internal/tree"
)

// mapValues is the representation of custom objects: maps, lists and scalars. It copies the maps
// and lists that contain a change, and shares all others with the live object.
type mapValues struct{}

var _ representation[any] = mapValues{}

func (mapValues) open(v any) (inner any, opaque, ok bool) { return v, false, true }

func (mapValues) isObject(v any) bool { _, ok := v.(map[string]any); return ok }

func (mapValues) isList(v any) bool { _, ok := v.([]any); return ok }

func (mapValues) blank(any) bool { return false }

func (mapValues) member(object any, name string) (any, bool) {
	v, ok := object.(map[string]any)[name]
	return v, ok
}

func (mapValues) withMember(object any, own bool, name string, member any) any {
	members := object.(map[string]any)
	if !own {
		members = maps.Clone(members)
	}
	members[name] = member
	return members
}

func (mapValues) scalars(*fieldset.Writer, map[string]any, any, *shape.Shape) (applies, changed, ok bool) {
	return false, false, false
}

func (mapValues) length(list any) int { return len(list.([]any)) }

func (mapValues) element(list any, i int) any { return list.([]any)[i] }

func (mapValues) withElement(list any, own bool, i int, element any) any {
	elements := list.([]any)
	if !own {
		elements = slices.Clone(elements)
	}
	elements[i] = element
	return elements
}

func (mapValues) key(element any, s *shape.Shape) (fieldset.ElementKey, bool) {
	return fieldset.ElementKeyOf(element, s)
}

func (mapValues) replace(config, v any, s *shape.Shape, whole bool) (next any, changed, ok bool) {
	switch c := config.(type) {
	case map[string]any:
		old, isMap := v.(map[string]any)
		ok = whole && isMap && s.Kind == shape.Object && len(c) > 0 && len(old) > 0
	case []any:
		old, isList := v.([]any)
		ok = whole && isList && s.Kind == shape.List && len(c) > 0 && len(old) > 0
	default:
		ok = s.Has(v) && s.Has(config) && reflect.TypeOf(v) == reflect.TypeOf(config)
	}
	switch {
	case !ok:
		return v, false, false
	case tree.Same(v, config):
		return v, false, true
	}
	return config, true, tree.Differ(v, config)
}
