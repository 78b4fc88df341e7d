package resource

import (
	"bytes"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// MaxTracked is the maximum number of members of a map, or elements of a list, for which
// Kubernetes' library tracks field ownership. The library inserts each member into an ordered
// slice, in random order: 65,000 members take about a second, four times as many take twenty times
// as long.
const MaxTracked = 1 << 16

// Tracked is a FieldManager that calls the library only for objects whose maps and lists have at
// most MaxTracked members. Updates of other objects leave no managedFields, as in Kubernetes when
// tracking fails; applying them is rejected with 413.
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
		return nil, apierrors.NewRequestEntityTooLargeError(
			"the object has too many members in one map or list for their owners to be tracked")
	}
	return t.FieldManager.Apply(live, config, by, force)
}

// Wide reports whether an object has a map or a list with more than MaxTracked members, or claims
// ownership of more than MaxTracked fields.
func Wide(obj runtime.Object) bool { return width{MaxTracked, true}.exceeded(obj) }

// Wider reports whether an object has a map or a list with more than n members.
func Wider(obj runtime.Object, n int) bool { return width{n, false}.exceeded(obj) }

// width is the maximum size of maps and lists. If owned is set, it also applies to sets of owned
// fields.
type width struct {
	most  int
	owned bool
}

func (w width) exceeded(obj runtime.Object) bool {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return w.byTree(u.Object)
	}
	return w.byValue(reflect.ValueOf(obj))
}

func (w width) byTree(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > w.most {
			return true
		}
		for _, member := range v {
			if w.byTree(member) {
				return true
			}
		}
	case []any:
		if len(v) > w.most {
			return true
		}
		for _, element := range v {
			if w.byTree(element) {
				return true
			}
		}
	}
	return false
}

func (w width) byValue(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && w.byValue(v.Elem())
	case reflect.Struct:
		switch v.Type() {
		case timeType:
			return false
		case fieldsType:
			return w.owned && wideFields(v.Addr().Interface().(*metav1.FieldsV1).GetRawBytes())
		}
		for i := range v.NumField() {
			if w.byValue(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice:
		elem := v.Type().Elem().Kind()
		if elem == reflect.Uint8 { // bytes are one value
			return false
		}
		if v.Len() > w.most {
			return true
		}
		for i := 0; i < v.Len() && nests(elem); i++ {
			if w.byValue(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		if v.Len() > w.most {
			return true
		}
		if nests(v.Type().Elem().Kind()) {
			for members := v.MapRange(); members.Next(); {
				if w.byValue(members.Value()) {
					return true
				}
			}
		}
	}
	return false
}

var (
	fieldsType = reflect.TypeFor[metav1.FieldsV1]()
	timeType   = reflect.TypeFor[time.Time]() // has pointers to tables of time zones
)

// wideFields reports whether a set of owned fields has more than MaxTracked fields. Fields from a
// client may be in any order, and the library inserts them one by one.
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
