package archive

import (
	"encoding/binary"
	"fmt"
	"io"

	"kelson.dev/apiserver/store"
)

// RecordError is the error of one record of a stream or a directory. The other records may be
// usable without it.
type RecordError struct {
	Key store.Key
	// Kind is the kind of the object; "" if it is unknown.
	Kind string
	Err  error
}

func (e *RecordError) Error() string {
	name := e.Key.Name
	if e.Key.Namespace != "" {
		name = e.Key.Namespace + "/" + name
	}
	if e.Kind != "" {
		name += " (" + e.Kind + ")"
	}
	return fmt.Sprintf("%s %s: %v", e.Key.Resource, name, e.Err)
}

func (e *RecordError) Unwrap() error { return e.Err }

// ReadWithout is like Read, but it calls removed instead of each for the records of one key, with
// their data. It accepts a block of any size if all its other records are of a usual size.
func ReadWithout(r io.Reader, key store.Key, removed func(data io.Reader) error,
	each func(store.Record) error) (revision uint64, err error) {
	return read(buffer(r), each, func(rec store.Record, size uint64, data io.Reader) error {
		if rec.Key == key {
			return removed(data)
		}
		if size > MaxBlock {
			return oversized(rec.Key, size)
		}
		rec.Data = make([]byte, size)
		if _, err := io.ReadFull(data, rec.Data); err != nil {
			return err
		}
		return each(rec)
	})
}

func oversized(key store.Key, size uint64) error {
	return &RecordError{Key: key, Err: fmt.Errorf("%w: it has %d bytes, more than the limit of %d", ErrDamaged, size,
		MaxBlock)}
}

// block is a block that is read without having it in memory.
type block struct {
	in   io.Reader
	left uint64
	sum  uint32
}

func (b *block) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.in.Read(p[:min(uint64(len(p)), b.left)])
	b.left -= uint64(n)
	b.sum = SumAfter(b.sum, p[:n])
	return n, err
}

// ReadByte implements [io.ByteReader].
func (b *block) ReadByte() (byte, error) {
	var one [1]byte
	_, err := io.ReadFull(b, one[:])
	return one[0], err
}

// maxName is more than the length of a part of a key.
const maxName = 64 << 10

// text reads a string of a key.
func (b *block) text() (string, error) {
	n, err := binary.ReadUvarint(b)
	if err == nil && n > min(maxName, b.left) {
		err = errInvalid
	}
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(b, text)
	return string(text), err
}

var errInvalid = fmt.Errorf("%w: invalid record", ErrDamaged)

// streamBlock reads the records of a block of any size, whose header is head, and calls visit for
// each. visit need not read the data. The errors of visit are final, even if the checksum is wrong.
func streamBlock(in io.Reader, head []byte, visit func(rec store.Record, size uint64,
	data io.Reader) error) (records uint64, err error) {
	length := binary.LittleEndian.Uint32(head)
	b := &block{in: in, left: uint64(length), sum: Sum(head[:4])}
	for b.left > 0 {
		rec, size, err := b.head()
		if err != nil {
			return records, readError(err, ErrDamaged)
		}
		data := io.LimitReader(b, int64(size))
		if err := visit(rec, size, data); err != nil {
			return records, err
		}
		if _, err := io.Copy(io.Discard, data); err != nil {
			return records, readError(err, ErrDamaged)
		}
		records++
	}
	if b.sum != binary.LittleEndian.Uint32(head[4:]) {
		return records, fmt.Errorf("%w: wrong checksum of a block of %d bytes", ErrDamaged, length)
	}
	return records, nil
}

// head reads a record up to its data.
func (b *block) head() (rec store.Record, size uint64, err error) {
	kind, err := b.ReadByte()
	if err != nil {
		return rec, 0, err
	}
	if rec.Revision, err = binary.ReadUvarint(b); err != nil {
		return rec, 0, err
	}
	if rec.Created, err = binary.ReadUvarint(b); err != nil {
		return rec, 0, err
	}
	for _, part := range []*string{&rec.Key.Resource, &rec.Key.Namespace, &rec.Key.Name} {
		if *part, err = b.text(); err != nil {
			return rec, 0, err
		}
	}
	if size, err = binary.ReadUvarint(b); err != nil {
		return rec, 0, err
	}
	if kind != written || size > b.left || rec.Key.Resource == "" || rec.Key.Name == "" {
		return rec, 0, errInvalid
	}
	return rec, size, nil
}

// nameLargest returns the error for a block that is larger than MaxBlock. It names the largest
// record, if the block has the bytes that were written.
func nameLargest(in io.Reader, head []byte, count uint64) error {
	var largest store.Key
	var most uint64
	_, err := streamBlock(in, head, func(rec store.Record, size uint64, _ io.Reader) error {
		if size > most {
			largest, most = rec.Key, size
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: a block of %d bytes after %d records", ErrDamaged, binary.LittleEndian.Uint32(head),
			count)
	}
	return oversized(largest, most)
}
