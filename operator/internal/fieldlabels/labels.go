// Package fieldlabels computes the text of an object's field as field selectors compare it.
//
// A server compares the stored object. Custom resources are stored as JSON: an unset field has the
// empty text, zero and false are "0" and "false" (kube-apiserver: apiextensions-apiserver,
// pkg/registry/customresource, selectableFields). Compiled-in kinds are compared as Go types, with
// only a few labels (k8s.io/kubernetes, pkg/registry, the functions ToSelectableFields). The
// functions here return the same text for the same object, whether decoded into a Go type,
// unstructured, or encoded.
//
// A Go type with a non-pointer field does not distinguish an unset number or boolean from a zero,
// and a type with custom decoding may decode several texts to the same value. The text is then
// uncertain, and the caller must use the object from the server.
package fieldlabels

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/tree"
)

// Certainty describes how certain the text of a field is.
type Certainty uint8

const (
	// Certain means that the text is right.
	Certain Certainty = iota
	// OrUnset means that the field may also be unset, with the empty text.
	OrUnset
	// Uncertain means that the text may be different.
	Uncertain
)

// MayBe reports whether the server may compare a different text than value.
func (c Certainty) MayBe(other, value string) bool {
	return other != value && (c == Uncertain || c == OrUnset && other == "")
}

// Of returns the text of an object's field. If a Go type lacks the field, the error is a
// BadRequest, as from the server.
func Of(obj metav1.Object, kind schema.GroupVersionKind, label string) (value string, certainty Certainty, err error) {
	switch label {
	case "metadata.name":
		return obj.GetName(), Certain, nil
	case "metadata.namespace":
		return obj.GetNamespace(), Certain, nil
	}
	rule := builtin[kind][label]
	for _, path := range rule.paths(label) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			value, certainty = inTree(u.Object, path), Certain
		} else if value, certainty, err = inStruct(obj, path); err != nil {
			return "", Certain, err
		}
		if value != "" || certainty != Certain {
			return value, certainty, nil
		}
	}
	return rule.zero, Certain, nil
}

// Encoded returns the text of a field of an object in JSON.
func Encoded(data []byte, kind schema.GroupVersionKind, label string) (string, error) {
	rule := builtin[kind][label]
	for _, path := range rule.paths(label) {
		value, err := inJSON(data, strings.Split(path, "."))
		if err != nil || value != "" {
			return value, err
		}
	}
	return rule.zero, nil
}

func inTree(object map[string]any, path string) string {
	value, found, err := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...)
	if !found || err != nil {
		return ""
	}
	return text(value)
}

func inJSON(data []byte, path []string) (string, error) {
	for _, name := range path {
		p := tree.Parser{Data: data}
		if p.Peek() != '{' {
			return "", nil
		}
		var value []byte
		err := p.Each(func(key []byte) error {
			p.Peek()
			begin := p.At
			err := p.Skip()
			if string(key) == name {
				value = data[begin:p.At]
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read %s: %w", strings.Join(path, "."), err)
		}
		if value == nil {
			return "", nil
		}
		data = value
	}
	p := tree.Parser{Data: data}
	value, err := p.Value()
	return text(value), err
}

// text returns the text that servers use for a JSON value.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// inStruct returns the text of a field in a Go type.
func inStruct(obj any, path string) (value string, certainty Certainty, err error) {
	v := reflect.ValueOf(obj).Elem()
	_, partial := obj.(*metav1.PartialObjectMetadata)
	names := strings.Split(path, ".")
	// For compiled-in kinds, the server encodes with the same type, so that a field is absent
	// exactly if the type omits it.
	builtinType := strings.Contains("/"+v.Type().PkgPath(), "/k8s.io/api/") || names[0] == "metadata"
	var f member
	absent := false
	for _, name := range names {
		var ok bool
		if f, ok = find(v, name); !ok || partial && names[0] != "metadata" {
			return "", Certain, apierrors.NewBadRequest("field label not supported: " + path)
		}
		absent = absent || f.absent || builtinType && f.omitZero && f.value.IsZero()
		for v = f.value; v.Kind() == reflect.Pointer; v = v.Elem() {
			if v.IsNil() {
				absent = true
				v = reflect.Zero(v.Type().Elem())
				break
			}
			f.omitEmpty, f.set = false, true
		}
	}
	switch {
	case absent:
		return "", Certain, nil
	case reflect.PointerTo(v.Type()).Implements(jsonMarshaler):
		if certainty = Uncertain; builtinType {
			certainty = Certain
		}
	default:
		switch v.Kind() {
		case reflect.String:
			return v.String(), Certain, nil
		case reflect.Float32:
			certainty = Uncertain
		case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			switch {
			case !v.IsZero() || f.set:
			case builtinType && f.omitEmpty:
				return "", Certain, nil
			case !builtinType:
				certainty = OrUnset
			}
		}
	}
	data, err := json.Marshal(v.Interface())
	if err != nil {
		return "", Certain, err
	}
	value, err = inJSON(data, nil)
	return value, certainty, err
}

var jsonMarshaler = reflect.TypeFor[json.Marshaler]()
