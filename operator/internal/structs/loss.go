package structs

import (
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/tree"
)

// Loss says how much of a status is lost when an object is read into a Go type and written again.
type Loss uint8

const (
	// Whole is nothing.
	Whole Loss = iota
	// InMembers is a member of an object that is in no list: one that the type does not have, or that it leaves out because it is empty. A merge patch
	// leaves such members alone.
	InMembers
	// InElements is something within a list. A merge patch loses it when it changes the list.
	InElements
)

const statusName = "status"

// tracker notes losses within a status.
type tracker struct {
	in    bool // a status is being read
	lists int  // of lists around what is read, in the status or not
	found Loss
	lost  func(metav1.Object, Loss)
}

// lose notes that what is read next, or was just read, is not written again.
func (r *reader) lose() {
	switch {
	case !r.loss.in:
	case r.loss.lists > 0:
		r.loss.found = InElements
	default:
		r.loss.found = max(r.loss.found, InMembers)
	}
}

// status reads the status of an object, which may be an item of a list.
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

// report tells the caller of losses in an object.
func (r *reader) report(v reflect.Value) {
	obj, ok := v.Addr().Interface().(metav1.Object)
	if ok && !r.loss.in && r.loss.lost != nil {
		r.loss.lost(obj, r.loss.found)
		r.loss.found = Whole
	}
}

// Status is what is lost of the status of an object that was read from data by another decoder.
func Status(data []byte, obj any) Loss {
	p := tree.Parser{Data: data}
	was, err := p.Find(statusName)
	switch {
	case errors.Is(err, tree.ErrUnusual):
		return InElements
	case err != nil:
		return Whole // there is none
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

// isObject reports whether a struct is that of objects.
func isObject(t reflect.Type) bool { return reflect.PointerTo(t).Implements(objectType) }

// writesItself reports whether the encoding of a type is its own, so that it need not be what the type is read from.
func writesItself(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}

// comparing reads a value that has an encoding of its own. Within a status, and in an object as a whole, it compares what would be written with what
// was read.
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
			r.loss.found = found // the value knows better
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

// hasJSON reports whether a document has all members, elements and values of another one. Numbers that are written differently are equal if
// their values are.
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
			if other, there := x[name]; !there || !has(other, value) {
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

// isEmpty is what encoding/json calls empty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// isZero is what encoding/json calls zero.
func isZero(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok {
		return z.IsZero()
	}
	return v.IsZero()
}
