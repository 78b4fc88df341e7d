package builtin

import (
	"bytes"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/tree"
)

// Kubernetes stores built-in kinds as protobuf, which cannot distinguish an empty list from a
// missing one. A list that a client empties therefore reads null afterwards if its field has no
// omitempty.

// fillBytes replaces nil byte slices in maps with empty ones: protobuf cannot encode nil.
func fillBytes(obj runtime.Object) {
	var maps []map[string][]byte
	switch obj := obj.(type) {
	case *corev1.Secret:
		maps = append(maps, obj.Data)
	case *corev1.ConfigMap:
		maps = append(maps, obj.BinaryData)
	}
	for _, m := range maps {
		for key, value := range m {
			if value == nil {
				m[key] = []byte{}
			}
		}
	}
}

// nullEmptyLists replaces [] by null in compact JSON.
func nullEmptyLists(data []byte) []byte {
	if !bytes.Contains(data, []byte(":[]")) {
		return data
	}
	out, from := make([]byte, 0, len(data)+8), 0
	for at, mark := range tree.Marks(data) {
		if mark == '[' && bytes.HasPrefix(data[at:], []byte("[]")) && at > 0 && data[at-1] == ':' {
			out = append(append(out, data[from:at]...), "null"...)
			from = at + len("[]")
		}
	}
	return append(out, data[from:]...)
}

// withoutEmptyLists returns a copy of an object in which empty lists are missing, except in raw
// JSON from clients and in byte slices.
func withoutEmptyLists(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	dropEmptyLists(reflect.ValueOf(obj).Elem())
	return obj
}

func dropEmptyLists(v reflect.Value) {
	if v.Type() == reflect.TypeFor[runtime.RawExtension]() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			dropEmptyLists(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				dropEmptyLists(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			dropEmptyLists(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() { // values of a map can't be changed in place
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			dropEmptyLists(value)
			v.SetMapIndex(key, value)
		}
	}
}

// holdsRaw reports whether values of a type can contain raw JSON from clients, which must not
// change.
func holdsRaw(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == reflect.TypeFor[runtime.RawExtension]() {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		return holdsRaw(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsRaw(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
