package resource

import (
	"bytes"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// MaxTracked is how many members a map, or elements a list, may have for the owners of an object's fields to be tracked by Kubernetes' library.
// It inserts each member into an ordered slice, in random order: 65,000 take it about a second, four times as many twenty times as long.
const MaxTracked = 1 << 16

// Tracked is the FieldManager that calls the library only for objects whose maps and lists have at most MaxTracked members. Writes of others
// leave no managedFields, as in Kubernetes where it fails to track them; to apply them is answered with 413.
type Tracked struct{ FieldManager }

// UpdateNoErrors implements [FieldManager].
func (t Tracked) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	if !Wide(live) && !Wide(next) {
		return t.FieldManager.UpdateNoErrors(live, next, by)
	}
	if object, err := meta.Accessor(next); err == nil {
		object.SetManagedFields(nil)
	}
	return next
}

// Apply implements [FieldManager].
func (t Tracked) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	if Wide(live) || Wide(config) {
		return nil, apierrors.NewRequestEntityTooLargeError("the object has too many members in one map or list for their owners to be tracked")
	}
	return t.FieldManager.Apply(live, config, by, force)
}

// Wide reports whether an object has a map or a list with more than MaxTracked members.
func Wide(obj runtime.Object) bool {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return wideTree(u.Object)
	}
	return wideValue(reflect.ValueOf(obj))
}

func wideTree(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > MaxTracked {
			return true
		}
		for _, member := range v {
			if wideTree(member) {
				return true
			}
		}
	case []any:
		if len(v) > MaxTracked {
			return true
		}
		for _, element := range v {
			if wideTree(element) {
				return true
			}
		}
	}
	return false
}

func wideValue(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && wideValue(v.Elem())
	case reflect.Struct:
		if v.Type() == fieldsType {
			return wideFields(v.Addr().Interface().(*metav1.FieldsV1).GetRawBytes())
		}
		for i := range v.NumField() {
			if wideValue(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice:
		elem := v.Type().Elem().Kind()
		if elem == reflect.Uint8 { // bytes are one value
			return false
		}
		if v.Len() > MaxTracked {
			return true
		}
		for i := 0; i < v.Len() && nests(elem); i++ {
			if wideValue(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		if v.Len() > MaxTracked {
			return true
		}
		if nests(v.Type().Elem().Kind()) {
			for members := v.MapRange(); members.Next(); {
				if wideValue(members.Value()) {
					return true
				}
			}
		}
	}
	return false
}

var fieldsType = reflect.TypeFor[metav1.FieldsV1]()

// wideFields reports whether a set of owned fields has more than MaxTracked fields: what a client sends need not be in order, and is inserted
// one by one.
func wideFields(raw []byte) bool {
	const least = len(`"f:":{},`)
	return len(raw) > MaxTracked*least && bytes.Count(raw, []byte(",")) >= MaxTracked
}

// nests reports whether values of a kind may have parts.
func nests(kind reflect.Kind) bool {
	switch kind {
	case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Slice, reflect.Map:
		return true
	}
	return false
}
