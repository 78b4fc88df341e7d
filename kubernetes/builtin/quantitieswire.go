package builtin

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// inProtobuf checks an encoded message.
func (q *quantities) inProtobuf(data []byte) *wrongQuantity {
	var key string
	for number, value := range protobufFields(data) {
		var wrong *wrongQuantity
		switch {
		case q.leaf && number == 1:
			wrong = q.check(string(value))
		case q.isMap && number == 1:
			key = string(value)
		case q.isMap && number == 2 && q.elem.text:
			if parsedAnnotation(key) {
				wrong = q.elem.check(string(value)).under(member(key))
			}
		case q.isMap && number == 2:
			wrong = q.elem.inProtobuf(value).under(member(key))
		case q.byNumber[number] != nil:
			f := q.byNumber[number]
			at := f.at
			for at.elem != nil && !at.isMap { // each element has its own field
				at = at.elem
			}
			wrong = at.inProtobuf(value).under(f.name)
		}
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

// protobufFields yields the length-delimited fields of a message, up to the first malformed one.
func protobufFields(data []byte) func(yield func(number uint64, value []byte) bool) {
	return func(yield func(uint64, []byte) bool) {
		for len(data) > 0 {
			tag, rest, ok := varint(data)
			if !ok {
				return
			}
			data = rest
			switch tag & 7 {
			case 0:
				if _, data, ok = varint(data); !ok {
					return
				}
			case 1, 5:
				width := 8 - int(tag&4)
				if len(data) < width {
					return
				}
				data = data[width:]
			case 2:
				size, rest, ok := varint(data)
				if !ok || size > uint64(len(rest)) {
					return
				}
				// The decoders keep 32 bits of the number.
				if !yield(uint64(uint32(tag>>3)), rest[:size]) {
					return
				}
				data = rest[size:]
			// groups: their fields are skipped by the decoders, and are harmless to visit
			case 3, 4:
			default:
				return
			}
		}
	}
}

// varint reads a varint as Kubernetes' decoders do: of any length up to ten bytes.
func varint(data []byte) (n uint64, rest []byte, ok bool) {
	for i, b := range data {
		if i == 10 {
			break
		}
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, data[i+1:], true
		}
	}
	return 0, nil, false
}

// protobufBody returns the message in a request body, and its kind.
func protobufBody(body []byte) (raw []byte, kind schema.GroupVersionKind) {
	for number, value := range protobufFields(bytes.TrimPrefix(body, []byte("k8s\x00"))) {
		switch number {
		case 1: // TypeMeta
			for number, value := range protobufFields(value) {
				switch number {
				case 1:
					kind = schema.FromAPIVersionAndKind(string(value), kind.Kind)
				case 2:
					kind.Kind = string(value)
				}
			}
		case 2:
			raw = value
		}
	}
	return raw, kind
}
