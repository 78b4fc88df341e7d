package wire

import (
	"bytes"
	"encoding/binary"
)

// MaxDepth limits the nesting of values in a body. The decoders of JSON, YAML and CBOR have the
// same limit. The protobuf decoder has none, so deeply nested schemas would exhaust the stack,
// which ends the process.
const MaxDepth = 10_000

// DeepProtobuf reports whether a body in protobuf nests messages deeper than MaxDepth. It treats
// every field with a length that parses as a message as a message.
func DeepProtobuf(body []byte) bool {
	body, _ = bytes.CutPrefix(body, []byte(protobufMagic))
	_, deep := messageFields(body, 0)
	return deep
}

// messageFields counts the fields with a length in a message that is nested depth deep, and in all
// messages that these fields may hold down to MaxDepth. deep reports whether there are fields below
// that. A message that is not well-formed counts up to its error.
func messageFields(message []byte, depth int) (fields int64, deep bool) {
	for len(message) > 0 {
		tag, size := binary.Uvarint(message)
		if size <= 0 {
			return fields, deep
		}
		message = message[size:]
		switch tag & 7 {
		case 0:
			if _, size = binary.Uvarint(message); size <= 0 {
				return fields, deep
			}
		case 1:
			size = 8
		case 2:
			length, head := binary.Uvarint(message)
			if head <= 0 || length > uint64(len(message)-head) {
				return fields, deep
			}
			size = head + int(length)
			fields++
			if depth == MaxDepth {
				deep = true
				break
			}
			inner, innerDeep := messageFields(message[head:size], depth+1)
			fields, deep = fields+inner, deep || innerDeep
		case 5:
			size = 4
		default: // the ends of a group have no value
			size = 0
		}
		if size > len(message) {
			return fields, deep
		}
		message = message[size:]
	}
	return fields, deep
}
