// Package archive writes a whole state of a store as one stream of bytes, and reads it back. It is
// the format of backups and of the checkpoints of package disk.
//
//	header   "KELSONST" version (4) revision (8) checksum (4)
//	block    "KBLK" length (4) checksum (4) records…
//	…
//	trailer  "KEND" records (8) checksum (4)
//
// Numbers are little-endian, with the size in bytes in parentheses. A checksum is CRC-32C of
// everything between the tag and the checksum, and of the content that follows. A truncated stream
// has no trailer, so it is never mistaken for a smaller state.
//
// The logs of package disk have the same records:
//
//	kind (1) revision created resource namespace name [object]
//
// There, numbers are uvarints, strings and the object are preceded by their length, and the
// revision is relative to that of the block.
package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"kelson.dev/apiserver/store"
)

const (
	headerTag  = "KELSONST"
	blockTag   = "KBLK"
	trailerTag = "KEND"

	// Version is the format version that Write writes.
	Version = 1

	// blockSize is the maximum size of a block of several records.
	blockSize = 256 << 10
	// maxKept is the size from which buffers are released.
	maxKept = 4 << 20
)

// MaxBlock is the maximum size of the records in a block, and in a frame of the logs of package
// disk. Writers check it, so that they never write what readers refuse. For readers, a larger
// length is damage and must not cause an allocation. No block reaches it: see store.MaxUnit.
const MaxBlock = 1 << 30

// ErrTooLarge means that a record exceeds MaxBlock.
var ErrTooLarge = fmt.Errorf("a record has more than %d bytes", MaxBlock)

// ErrDamaged means that a stream differs from what was written.
var ErrDamaged = errors.New("damaged")

// ErrForeign means that a stream was not written by this program.
var ErrForeign = errors.New("not a state of this program")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of consecutive parts.
func Sum(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

// SumAfter returns the checksum of what has the checksum sum, followed by part.
func SumAfter(sum uint32, part []byte) uint32 { return crc32.Update(sum, castagnoli, part) }

// Write writes the state at a revision; no record may be newer. If ctx ends, Write stops early and
// returns its error.
func Write(ctx context.Context, w io.Writer, revision uint64, records iter.Seq[store.Record]) (err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	put := func(parts ...[]byte) {
		for _, p := range parts {
			if err == nil {
				_, err = out.Write(p)
			}
		}
	}
	header := binary.LittleEndian.AppendUint32(nil, Version)
	header = binary.LittleEndian.AppendUint64(header, revision)
	put([]byte(headerTag), header, number(Sum(header)))

	var block []byte
	var count uint64
	flush := func() {
		length := number(uint32(len(block)))
		put([]byte(blockTag), length, number(Sum(length, block)), block)
		block = block[:0]
	}
	for r := range records {
		size := RecordSize(r)
		if size > MaxBlock {
			return fmt.Errorf("%s %s/%s: %w", r.Key.Resource, r.Key.Namespace, r.Key.Name, ErrTooLarge)
		}
		if len(block) > 0 && len(block)+size > blockSize {
			if flush(); err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
		}
		if cap(block) > maxKept && size < blockSize {
			block = nil // large records are rare; release the memory
		}
		block = AppendRecord(block, 0, r)
		count++
	}
	if len(block) > 0 {
		flush()
	}
	end := binary.LittleEndian.AppendUint64(nil, count)
	put([]byte(trailerTag), end, number(Sum(end)))
	if err == nil {
		err = out.Flush()
	}
	return err
}

func number(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// Read calls each with every record of a stream, and returns the revision of the state. The
// callback may keep the Data. If the stream is not what Write wrote, Read fails with ErrDamaged or
// ErrForeign, possibly after calls of each.
func Read(r io.Reader, each func(store.Record) error) (revision uint64, err error) {
	return read(buffer(r), each, nil)
}

// ReadBytes is like Read for a stream that is in memory. The records share the bytes: nothing may
// change them while a record is in use.
func ReadBytes(stream []byte, each func(store.Record) error) (revision uint64, err error) {
	return read(memory{bytes.NewReader(stream), stream}, each, nil)
}

// read implements Read, ReadBytes and ReadWithout, for which visit is set and replaces each.
func read(in source, each func(store.Record) error,
	visit func(store.Record, uint64, io.Reader) error) (revision uint64, err error) {
	header := make([]byte, len(headerTag)+16)
	if _, err := io.ReadFull(in, header); err != nil || string(header[:len(headerTag)]) != headerTag {
		return 0, readError(err, ErrForeign)
	}
	header = header[len(headerTag):]
	if Sum(header[:12]) != binary.LittleEndian.Uint32(header[12:]) {
		return 0, fmt.Errorf("%w: wrong checksum of the header", ErrDamaged)
	}
	if version := binary.LittleEndian.Uint32(header); version != Version {
		return 0, fmt.Errorf("format version %d is not supported, want %d", version, Version)
	}
	revision = binary.LittleEndian.Uint64(header[4:])
	var count uint64
	valid := func(rec store.Record) error {
		if rec.Revision > revision {
			return fmt.Errorf("%w: record of revision %d in a state at %d", ErrDamaged, rec.Revision, revision)
		}
		return nil
	}
	stream := visit
	if visit != nil {
		stream = func(rec store.Record, size uint64, data io.Reader) error {
			if err := valid(rec); err != nil {
				return err
			}
			return visit(rec, size, data)
		}
	}
	for {
		block, more, streamed, err := readBlock(in, count, stream)
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
		count += streamed
		for rest := block; len(rest) > 0; count++ {
			var rec store.Record
			if rec, rest, err = TakeRecord(rest, 0); err != nil {
				return 0, err
			}
			if err := valid(rec); err != nil {
				return 0, err
			}
			if rec.Data == nil {
				return 0, fmt.Errorf("%w: deletion of revision %d in a state", ErrDamaged, rec.Revision)
			}
			if err := each(rec); err != nil {
				return 0, err
			}
		}
	}
	if _, err := io.ReadFull(in, make([]byte, 1)); err != io.EOF {
		return 0, fmt.Errorf("%w: unexpected data after the trailer", ErrDamaged)
	}
	return revision, nil
}

// readBlock returns the records of a block, which share its memory. It returns false for the
// trailer, which must contain count. If stream is not nil, readBlock calls it for the records and
// returns an empty block.
func readBlock(in source, count uint64,
	stream func(store.Record, uint64, io.Reader) error) (block []byte, more bool, streamed uint64, err error) {
	var tag [4]byte
	if _, err := io.ReadFull(in, tag[:]); err != nil {
		return nil, false, 0, readError(err, ErrDamaged)
	}
	var head [8]byte
	switch string(tag[:]) {
	case trailerTag:
		var end [12]byte
		if _, err := io.ReadFull(in, end[:]); err != nil {
			return nil, false, 0, readError(err, ErrDamaged)
		}
		if Sum(end[:8]) != binary.LittleEndian.Uint32(end[8:]) || binary.LittleEndian.Uint64(end[:]) != count {
			return nil, false, 0, fmt.Errorf("%w: the trailer does not match after %d records", ErrDamaged, count)
		}
		return nil, false, 0, nil
	case blockTag:
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, false, 0, readError(err, ErrDamaged)
		}
	default:
		return nil, false, 0, fmt.Errorf("%w: expected a block after %d records", ErrDamaged, count)
	}
	if stream != nil {
		streamed, err = streamBlock(in, head[:], stream)
		return nil, true, streamed, err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > MaxBlock {
		return nil, false, 0, nameLargest(in, head[:], count)
	}
	if block, err = in.take(int(length)); err != nil {
		return nil, false, 0, readError(err, ErrDamaged)
	}
	if Sum(head[:4], block) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, false, 0, fmt.Errorf("%w: wrong checksum of the block after %d records", ErrDamaged, count)
	}
	return block, true, 0, nil
}

// source is the input of read.
type source interface {
	io.Reader
	// take returns the next n bytes, which nothing changes later.
	take(n int) ([]byte, error)
}

// buffered is the source of Read.
type buffered struct{ *bufio.Reader }

func buffer(r io.Reader) buffered {
	return buffered{bufio.NewReaderSize(r, 16<<10)} // blocks are larger, and bypass it
}

func (b buffered) take(n int) ([]byte, error) {
	taken := make([]byte, n)
	_, err := io.ReadFull(b, taken)
	return taken, err
}

// memory is the source of ReadBytes: a reader of the whole stream.
type memory struct {
	*bytes.Reader
	whole []byte
}

func (m memory) take(n int) ([]byte, error) {
	if n > m.Len() {
		return nil, io.ErrUnexpectedEOF
	}
	at := len(m.whole) - m.Len()
	_, err := m.Seek(int64(n), io.SeekCurrent)
	return m.whole[at : at+n : at+n], err
}

// readError returns the error of a read: short if the stream ended early, or else err.
func readError(err, short error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the stream ends early", short)
	}
	return err
}
