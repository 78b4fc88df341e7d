package jsondecode

import (
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/tree"
)

// Loss describes how much of a status is lost if an object is decoded into a Go type and encoded
// again.
type Loss uint8

const (
	// Whole means that nothing is lost.
	Whole Loss = iota
	// InMembers means that members of objects outside of lists are lost: the type lacks them, or
	// omits them because they are empty. A merge patch does not touch such members.
	InMembers
	// InElements means that part of a list is lost. A merge patch loses it if it changes the list.
	InElements
)

const statusName = "status"

// tracker records losses within a status.
type tracker struct {
	in    bool // within a status
	lists int  // number of enclosing lists
	found Loss
	lost  func(metav1.Object, Loss)
}

// lose records that the value being read would not be encoded again.
func (r *reader) lose() {
	switch {
	case !r.loss.in:
	case r.loss.lists > 0:
		r.loss.found = InElements
	default:
		r.loss.found = max(r.loss.found, InMembers)
	}
}

// status decodes the status of an object, which may be an item of a list.
func (r *reader) status(f *field, v reflect.Value, depth int) error {
	around := r.loss
	if r.loss.in = true; !around.in {
		r.loss.lists = 0
	}
	err := f.plan.read(r, v, depth)
	if f.omitEmpty && isEmpty(v) || f.omitZero && isZero(v) {
		r.lose()
	}
	r.loss.in, r.loss.lists = around.in, around.lists
	return err
}

// report calls the caller's function for losses in an object.
func (r *reader) report(v reflect.Value) {
	obj, ok := v.Addr().Interface().(metav1.Object)
	if ok && !r.loss.in && r.loss.lost != nil {
		r.loss.lost(obj, r.loss.found)
		r.loss.found = Whole
	}
}

// Status returns the loss in the status of an object that another decoder read from data.
func Status(data []byte, obj any) Loss {
	p := tree.Parser{Data: data}
	was, err := p.Find(statusName)
	switch {
	case errors.Is(err, tree.ErrUnusual):
		return InElements
	case err != nil:
		return Whole // no status
	}
	written, err := json.Marshal(obj)
	if err != nil {
		return InElements
	}
	p = tree.Parser{Data: written}
	is, err := p.Find(statusName)
	if err != nil {
		is = []byte("null")
	}
	if !hasJSON(is, was) {
		return InElements
	}
	return Whole
}

var (
	objectType    = reflect.TypeFor[metav1.Object]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// isObject reports whether a struct is an API object.
func isObject(t reflect.Type) bool { return reflect.PointerTo(t).Implements(objectType) }

// writesItself reports whether a type has a custom encoding, which can differ from the input.
func writesItself(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}

// comparing decodes a value with a custom encoding. Within a status, and for complete objects, it
// compares the encoding of the value with the input.
func comparing(read readFunc) readFunc {
	return func(r *reader, v reflect.Value, depth int) error {
		r.Peek()
		begin, found := r.At, r.loss.found
		err := read(r, v, depth)
		if err != nil || !v.CanAddr() {
			return err
		}
		raw := r.Data[begin:r.At]
		switch {
		case r.loss.in:
			r.loss.found = found // the value's own check is more precise
			if written, err := json.Marshal(v.Addr().Interface()); err != nil || !hasJSON(written, raw) {
				r.lose()
			}
		case v.Kind() == reflect.Struct && isObject(v.Type()):
			if r.loss.found = Status(raw, v.Addr().Interface()); r.loss.found != Whole {
				r.report(v)
			}
		}
		return nil
	}
}

// hasJSON reports whether a document has all members, elements and values of another one. It
// compares numbers by value.
func hasJSON(written, raw []byte) bool {
	if string(written) == string(raw) {
		return true
	}
	p, q := tree.Parser{Data: written}, tree.Parser{Data: raw}
	x, err := p.Value()
	if err != nil {
		return false
	}
	y, err := q.Value()
	return err == nil && has(x, y)
}

func has(written, raw any) bool {
	switch y := raw.(type) {
	case map[string]any:
		x, ok := written.(map[string]any)
		for name, value := range y {
			if other, ok := x[name]; !ok || !has(other, value) {
				return false
			}
		}
		return ok
	case []any:
		x, ok := written.([]any)
		return ok && slices.EqualFunc(x, y, has)
	case float64:
		if x, ok := written.(int64); ok {
			return y == float64(x) && int64(y) == x
		}
	}
	return tree.Same(written, raw)
}

// isEmpty implements omitempty of encoding/json.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// isZero implements omitzero of encoding/json.
func isZero(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok {
		return z.IsZero()
	}
	return v.IsZero()
}
