package protobuf

// helpers are the functions that the methods of a package share.
const helpers = `// putProtoVarint encodes a number before the end of a buffer and returns its position.
func putProtoVarint(b []byte, end int, v uint64) int {
	i := end - sizeProtoVarint(v)
	n := i
	for ; v >= 0x80; v >>= 7 {
		b[n] = byte(v) | 0x80
		n++
	}
	b[n] = byte(v)
	return i
}

func sizeProtoVarint(v uint64) int { return ($bits.Len64(v|1) + 6) / 7 }

// sizeProtoBytes returns the size of n bytes with their length.
func sizeProtoBytes(n int) int { return sizeProtoVarint(uint64(n)) + n }

// protoReader reads the fields of an encoded message until the first error.
type protoReader struct {
	data    []byte
	message string
	field   int
	wire    int
	depth   int
	err     error
}

func (r *protoReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// more reports whether there are more bytes.
func (r *protoReader) more() bool { return r.err == nil && len(r.data) > 0 }

// next reads the tag of the next field.
func (r *protoReader) next() bool {
	if !r.more() {
		return false
	}
	tag := r.number()
	field := tag >> 3
	if r.field, r.wire = int(field), int(tag&7); r.err == nil && (field == 0 || field > 1<<29-1) {
		r.fail($fmt.Errorf("proto: %s: illegal tag %d (wire type %d)", r.message, field, r.wire))
	}
	return r.err == nil
}

// number reads a number.
func (r *protoReader) number() uint64 {
	v, n := $binary.Uvarint(r.data)
	switch {
	case n > 0:
		r.data = r.data[n:]
		return v
	case n == 0:
		r.fail($io.ErrUnexpectedEOF)
	default:
		r.fail($fmt.Errorf("proto: %s: integer overflow", r.message))
	}
	return 0
}

// take reads n bytes.
func (r *protoReader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.data)) {
		r.fail($io.ErrUnexpectedEOF)
	}
	if r.err != nil {
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

// expect returns false unless the field has a wire type.
func (r *protoReader) expect(name string, wire int) bool {
	if r.wire != wire {
		r.fail($fmt.Errorf("proto: %s: wrong wireType = %d for field %s", r.message, r.wire, name))
	}
	return r.err == nil
}

func (r *protoReader) varint(name string) uint64 {
	if !r.expect(name, 0) {
		return 0
	}
	return r.number()
}

func (r *protoReader) fixed32(name string) uint32 {
	if r.expect(name, 5) {
		if b := r.take(4); b != nil {
			return $binary.LittleEndian.Uint32(b)
		}
	}
	return 0
}

func (r *protoReader) fixed64(name string) uint64 {
	if r.expect(name, 1) {
		if b := r.take(8); b != nil {
			return $binary.LittleEndian.Uint64(b)
		}
	}
	return 0
}

func (r *protoReader) bytes(name string) []byte {
	if !r.expect(name, 2) {
		return nil
	}
	return r.take(r.number())
}

// nested decodes a message.
func (r *protoReader) nested(name string, into interface{ Unmarshal([]byte) error }) {
	if b := r.bytes(name); r.err == nil {
		r.fail(into.Unmarshal(b))
	}
}

// packed returns a reader of packed numbers of a wire type.
func (r *protoReader) packed(name string, wire int) *protoReader {
	return &protoReader{data: r.bytes(name), message: r.message, wire: wire}
}

// skip skips an unknown field.
func (r *protoReader) skip() {
	switch r.wire {
	case 0:
		r.number()
	case 1:
		r.take(8)
	case 2:
		r.take(r.number())
	case 3:
		r.skipGroup()
	case 5:
		r.take(4)
	default:
		r.fail($fmt.Errorf("proto: %s: illegal wireType %d", r.message, r.wire))
	}
}

// skipGroup skips the fields of a group and its end.
func (r *protoReader) skipGroup() {
	if r.depth++; r.depth > 100 {
		r.fail($fmt.Errorf("proto: %s: groups are nested too deeply", r.message))
	}
	for group := r.field; r.next(); {
		if r.wire == 4 {
			if r.field != group {
				r.fail($fmt.Errorf("proto: %s: unexpected end of group %d", r.message, r.field))
			}
			r.depth--
			return
		}
		r.skip()
	}
	r.fail($io.ErrUnexpectedEOF)
}
`
