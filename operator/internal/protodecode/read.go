package protodecode

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxDepth is more than the nesting of any non-recursive type.
const maxDepth = 100

// reader decodes one object. Its methods return false for unsupported input.
type reader struct {
	share Sharing
	parts *Parts
	lacks bool // the Go type lacks a field of the message
}

// message decodes data into the message at an address.
func (r *reader) message(p *plan, data []byte, at unsafe.Pointer, depth int) bool {
	switch p.how {
	case byFields:
		return depth < maxDepth && r.fields(p, data, at, depth+1)
	case asTime:
		return (*metav1.Time)(at).Unmarshal(data) == nil
	case asQuantity:
		return r.quantity(data, (*resource.Quantity)(at))
	}
	return reflect.NewAt(p.t, at).Interface().(unmarshaler).Unmarshal(data) == nil
}

// fields decodes the fields of a message.
func (r *reader) fields(p *plan, data []byte, at unsafe.Pointer, depth int) bool {
	next, last := 0, uint64(0)
	for i := 0; i < len(data); {
		begin := i
		tag := uint64(data[i])
		if i++; tag >= 0x80 {
			if tag, i = uvarint(data, begin); i < 0 || tag > 1<<32-1 {
				return false
			}
		}
		if tag>>3 <= last { // also rejects repeated fields that must be merged
			return false
		}
		for next < len(p.fields) && p.fields[next].tag < tag {
			next++
		}
		if next == len(p.fields) || p.fields[next].tag != tag {
			if next < len(p.fields) && p.fields[next].tag>>3 == tag>>3 ||
				next > 0 && p.fields[next-1].tag>>3 == tag>>3 {
				return false // unexpected wire type
			}
			last = tag>>3 - 1 // a repeated field
			r.lacks = true
			if i = skip(data, i, tag&7); i < 0 {
				return false
			}
			continue
		}
		f := &p.fields[next]
		next, last = next+1, tag>>3
		place := unsafe.Add(at, f.offset)
		switch {
		case f.op < lengths:
			i = readVarint(f, data, i, place)
		case f.op < runs:
			length := uint64(0)
			if length, i = uvarint(data, i); i < 0 || length > uint64(len(data)-i) {
				return false
			}
			value := data[i : i+int(length)]
			i += int(length)
			if !r.value(f, value, place, depth) {
				return false
			}
		default:
			i = r.run(f, data, begin, place, depth)
		}
		if i < 0 {
			return false
		}
	}
	return true
}

// readVarint decodes one varint, or a run of them.
func readVarint(f *field, data []byte, i int, place unsafe.Pointer) int {
	n, i := uvarint(data, i)
	if i < 0 {
		return -1
	}
	switch f.op {
	case aBool:
		*(*bool)(place) = n != 0
	case anInt32:
		*(*int32)(place) = int32(n)
	case anInt64:
		*(*int64)(place) = int64(n)
	case aBoolPointer:
		b := n != 0
		*(**bool)(place) = &b
	case anInt32Pointer:
		v := int32(n)
		*(**int32)(place) = &v
	case anInt64Pointer:
		v := int64(n)
		*(**int64)(place) = &v
	case manyInt32:
		var all []int32
		if all, i = readVarints[int32](f, data, i, n); i < 0 {
			return -1
		}
		*(*[]int32)(place) = all
	case manyInt64:
		var all []int64
		if all, i = readVarints[int64](f, data, i, n); i < 0 {
			return -1
		}
		*(*[]int64)(place) = all
	}
	return i
}

func readVarints[T int32 | int64](f *field, data []byte, i int, first uint64) ([]T, int) {
	all := []T{T(first)}
	for i < len(data) {
		tag, next := uvarint(data, i)
		if next < 0 {
			return nil, -1
		}
		if tag != f.tag {
			break
		}
		var n uint64
		if n, i = uvarint(data, next); i < 0 {
			return nil, -1
		}
		all = append(all, T(n))
	}
	return all, i
}

// value decodes a length-delimited value.
func (r *reader) value(f *field, data []byte, place unsafe.Pointer, depth int) bool {
	switch f.op {
	case aText:
		*(*string)(place) = r.text(data)
	case aTextPointer:
		s := r.text(data)
		*(**string)(place) = &s
	case someBytes:
		*(*[]byte)(place) = clone(data)
	case aMessage:
		return r.message(f.message, data, place, depth)
	case aMessagePointer:
		return r.pointer(f.message, data, (*unsafe.Pointer)(place), depth)
	}
	return true
}

func (r *reader) pointer(p *plan, data []byte, place *unsafe.Pointer, depth int) bool {
	if p.how == asTime {
		*place = unsafe.Pointer(new(metav1.Time))
		return r.message(p, data, *place, depth)
	}
	known, keep := r.parts.find(unsafe.Pointer(p), data)
	if *place = known.value; known.value != nil {
		return true
	}
	*place = reflect.New(p.t).UnsafePointer()
	if !r.message(p, data, *place, depth) {
		return false
	}
	if keep != 0 {
		r.parts.keep(keep, unsafe.Pointer(p), data, *place, 0)
	}
	return true
}

// slice is the memory layout of a slice.
type slice struct {
	data          unsafe.Pointer
	len, capacity int
}

// run decodes a run of fields with the same number into a slice or a map. The first begins at i.
func (r *reader) run(f *field, data []byte, i int, place unsafe.Pointer, depth int) int {
	count, end := run(data, i, f.tag)
	if end < 0 {
		return -1
	}
	raw := data[i:end]
	if f.alone {
		if !r.elements(f, count, raw, place, depth) {
			return -1
		}
		return end
	}
	known, keep := r.parts.find(unsafe.Pointer(f), raw)
	switch {
	case known.value != nil && f.op < maps:
		*(*slice)(place) = slice{known.value, known.length, known.length}
	case known.value != nil:
		*(*unsafe.Pointer)(place) = known.value
	case !r.elements(f, count, raw, place, depth):
		return -1
	case keep != 0: // a map is a pointer, and a slice begins with one
		r.parts.keep(keep, unsafe.Pointer(f), raw, *(*unsafe.Pointer)(place), count)
	}
	return end
}

// elements decodes the elements of a run.
func (r *reader) elements(f *field, count int, data []byte, place unsafe.Pointer, depth int) bool {
	i := 0
	switch f.op {
	case manyTexts:
		texts := make([]string, count)
		for n := range texts {
			var value []byte
			value, i = element(data, i)
			texts[n] = r.text(value)
		}
		*(*[]string)(place) = texts
	case manyMessages:
		slice := reflect.NewAt(f.t, place).Elem()
		slice.Grow(count)
		slice.SetLen(count)
		at := slice.UnsafePointer()
		for n := range count {
			var value []byte
			value, i = element(data, i)
			if !r.message(f.message, value, unsafe.Add(at, uintptr(n)*f.message.size), depth) {
				return false
			}
		}
	case textMap:
		return readMap(r, count, data, (*map[string]string)(place), func(value []byte) (string, bool) {
			return r.text(value), true
		})
	case bytesMap:
		return readMap(r, count, data, (*map[string][]byte)(place), func(value []byte) ([]byte, bool) {
			return clone(value), true
		})
	case quantityMap:
		return readMap(r, count, data, (*map[string]resource.Quantity)(place),
			func(value []byte) (q resource.Quantity, ok bool) {
				ok = r.quantity(value, &q)
				return q, ok
			})
	case messageMap:
		m := reflect.MakeMapWithSize(f.t, count)
		for range count {
			var key, value []byte
			if key, value, i = entry(data, i); i < 0 {
				return false
			}
			k, v := reflect.New(f.t.Key()), reflect.New(f.message.t)
			k.Elem().SetString(r.text(key))
			if !r.message(f.message, value, v.UnsafePointer(), depth) {
				return false
			}
			m.SetMapIndex(k.Elem(), v.Elem())
		}
		reflect.NewAt(f.t, place).Elem().Set(m)
	}
	return true
}

// readMap decodes entries of a map, with a function that decodes values.
func readMap[V any](r *reader, count int, data []byte, into *map[string]V, read func([]byte) (V, bool)) bool {
	m := make(map[string]V, count)
	for i := 0; count > 0; count-- {
		var key, value []byte
		if key, value, i = entry(data, i); i < 0 {
			return false
		}
		v, ok := read(value)
		if !ok {
			return false
		}
		m[r.text(key)] = v
	}
	*into = m
	return true
}

func (r *reader) text(b []byte) string {
	if r.share == nil {
		return string(b)
	}
	return r.share.Text(b)
}

// clone returns a copy that is never nil.
func clone(b []byte) []byte {
	c := make([]byte, len(b))
	copy(c, b)
	return c
}

// quantity decodes a resource.Quantity.
func (r *reader) quantity(data []byte, into *resource.Quantity) bool {
	if len(data) < 2 || data[0] != 1<<3|bytes || data[1] >= 0x80 || int(data[1]) != len(data)-2 {
		return into.Unmarshal(data) == nil
	}
	q, err := resource.ParseQuantity(r.text(data[2:])) // the quantity may retain the text
	*into = q
	return err == nil
}
