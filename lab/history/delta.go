package history

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/s2"
)

const (
	tableBits = 13
	// maxDelta is the size from which package s2 encodes objects instead of this encoder: an S2
	// block can refer to its dictionary only in its first 64 KiB.
	maxDelta = 60_000
)

// deltas encodes versions of objects as S2 blocks whose dictionary is an earlier version, which
// [s2.Dict.Decode] decodes. Package s2 builds an index of 32 KiB for each dictionary. This encoder
// keeps one index for all, because each dictionary is used once.
type deltas struct {
	// table has positions in dictionaries by the hash of eight bytes. The positions of the current
	// dictionary begin at next; those of earlier ones are smaller.
	table [1 << tableBits]uint32
	next  uint32
}

func hash8(v uint64) uint64 { return v * 0x9E3779B185EBCA87 >> (64 - tableBits) }

// encode returns data, encoded with a dictionary. It returns nil if the dictionary is too short.
func (d *deltas) encode(dict, data []byte) []byte {
	if len(dict) < s2.MinDictSize {
		return nil
	}
	if len(data) > maxDelta {
		return dictionary(dict).Encode(nil, data)
	}
	dict = dict[max(0, len(dict)-s2.MaxDictSize):]
	if d.next > 1<<31 {
		clear(d.table[:])
		d.next = 0
	}
	begin := d.next + 1
	d.next += uint32(len(dict)) + 1
	for i := 0; i+8 <= len(dict); i += 2 {
		d.table[hash8(binary.LittleEndian.Uint64(dict[i:]))] = begin + uint32(i)
	}
	block := binary.AppendUvarint(make([]byte, 0, 128+len(data)/8), uint64(len(data)))
	written, i := 0, 0
	for i+8 <= len(data) {
		v := binary.LittleEndian.Uint64(data[i:])
		at := int(d.table[hash8(v)]) - int(begin)
		if at < 0 || binary.LittleEndian.Uint64(dict[at:]) != v {
			i++
			continue
		}
		for i > written && at > 0 && data[i-1] == dict[at-1] {
			i, at = i-1, at-1
		}
		n := common(data[i:], dict[at:])
		block = appendLiteral(block, data[written:i])
		block = appendCopy(block, i+len(dict)-at, n)
		i += n
		written = i
	}
	return appendLiteral(block, data[written:])
}

// common returns the length of the common prefix.
func common(a, b []byte) int {
	n := 0
	for n+32 <= len(a) && n+32 <= len(b) && bytes.Equal(a[n:n+32], b[n:n+32]) {
		n += 32
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// The elements of S2 blocks: https://github.com/klauspost/compress/tree/master/s2#block-compression
const (
	tagLiteral = 0
	tagRepeat  = 1 // with offset 0
	tagCopy2   = 2 // with an offset of 2 bytes
	tagCopy4   = 3 // with an offset of 4 bytes
)

func appendLiteral(block, text []byte) []byte {
	n := len(text) - 1
	switch {
	case n < 0:
		return block
	case n < 60:
		block = append(block, byte(n)<<2|tagLiteral)
	case n < 1<<8:
		block = append(block, 60<<2|tagLiteral, byte(n))
	default: // at most maxDelta
		block = append(block, 61<<2|tagLiteral, byte(n), byte(n>>8))
	}
	return append(block, text...)
}

// appendCopy appends a copy of at least 8 bytes.
func appendCopy(block []byte, offset, n int) []byte {
	first := n
	if n > 64 {
		first = 60 // so that the rest is long enough for a repeat element
	}
	if offset < 1<<16 {
		block = append(block, byte(first-1)<<2|tagCopy2, byte(offset), byte(offset>>8))
	} else {
		block = binary.LittleEndian.AppendUint32(append(block, byte(first-1)<<2|tagCopy4), uint32(offset))
	}
	switch n -= first; {
	case n == 0:
		return block
	case n <= 8:
		return append(block, byte(n-4)<<2|tagRepeat, 0)
	case n < 8+1<<8:
		return append(block, 5<<2|tagRepeat, 0, byte(n-8))
	default: // at most maxDelta
		n -= 4 + 1<<8
		return append(block, 6<<2|tagRepeat, 0, byte(n), byte(n>>8))
	}
}
