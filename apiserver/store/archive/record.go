package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"kelson.dev/apiserver/store"
)

const (
	written = 1
	removed = 2
)

// RecordSize returns a size, in bytes, that AppendRecord does not exceed for a record.
func RecordSize(r store.Record) int {
	const numbers = 1 + 6*binary.MaxVarintLen64
	return numbers + len(r.Key.Resource) + len(r.Key.Namespace) + len(r.Key.Name) + len(r.Data)
}

// AppendRecord appends a record to a buffer. Its revision must not be less than base.
func AppendRecord(to []byte, base uint64, r store.Record) []byte {
	kind := byte(written)
	if r.Data == nil {
		kind = removed
	}
	to = append(to, kind)
	to = binary.AppendUvarint(to, r.Revision-base)
	to = binary.AppendUvarint(to, r.Created)
	for _, s := range []string{r.Key.Resource, r.Key.Namespace, r.Key.Name} {
		to = binary.AppendUvarint(to, uint64(len(s)))
		to = append(to, s...)
	}
	if kind == written {
		to = binary.AppendUvarint(to, uint64(len(r.Data)))
		to = append(to, r.Data...)
	}
	return to
}

// TakeRecord reads the first record of a buffer and returns the rest. AppendRecord must have
// written the record with the same base. The record shares the buffer, its strings too: nothing may
// change the buffer while the record is in use. [Own] returns a record that shares nothing.
func TakeRecord(from []byte, base uint64) (r store.Record, rest []byte, err error) {
	c := cutter{rest: from}
	kind := c.byte()
	r.Revision = base + c.uvarint()
	r.Created = c.uvarint()
	r.Key = store.Key{Resource: c.string(), Namespace: c.string(), Name: c.string()}
	switch kind {
	case written:
		if r.Data = c.bytes(); r.Data == nil {
			r.Data = []byte{}
		}
	case removed:
	default:
		c.bad = true
	}
	if c.bad || r.Revision < base || r.Key.Resource == "" || r.Key.Name == "" {
		return store.Record{}, nil, fmt.Errorf("%w: invalid record", ErrDamaged)
	}
	return r, c.rest, nil
}

// Own returns a copy of a record that shares no memory with it.
func Own(r store.Record) store.Record {
	r.Key = store.Key{Resource: strings.Clone(r.Key.Resource), Namespace: strings.Clone(r.Key.Namespace),
		Name: strings.Clone(r.Key.Name)}
	r.Data = bytes.Clone(r.Data)
	return r
}

// cutter reads values from a buffer.
type cutter struct {
	rest []byte
	bad  bool
}

func (c *cutter) byte() byte {
	if len(c.rest) == 0 {
		c.bad = true
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

func (c *cutter) uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cutter) bytes() []byte {
	n := c.uvarint()
	if n > uint64(len(c.rest)) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cutter) string() string {
	b := c.bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}
