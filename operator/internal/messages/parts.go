package messages

import (
	"hash/maphash"
	"slices"
	"unsafe"
)

// Parts are parts of messages that were read before: slices, maps, and what pointers point to. Most objects of a kind have most of these in
// common. It is for one goroutine, and for values that nobody changes. The zero value is ready, and takes next to no memory until there is
// something alike.
type Parts struct {
	known map[uint64]part // by hash
	size  int             // of all that is known, encoded
	seed  maphash.Seed
	once  []marks // of what came once, by the last bits of their hashes
}

// marks are the first bits of some hashes, the latest first. Several, for one alone would be lost each time to another part of the same object.
type marks [4]uint32

// part is a slice, a map or a pointer.
type part struct {
	by     unsafe.Pointer // how it was read: a plan or a field
	raw    string         // and from what
	value  unsafe.Pointer
	length int // of a slice or map
}

const (
	// maxPart is the largest part that is looked for, encoded, and maxParts of all that are kept.
	maxPart  = 16 << 10
	maxParts = 128 << 10
	// overhead is what a part takes beyond its encoding, about.
	overhead = 64
	onceLen  = 128
)

// find is an earlier part, whose value is nil if there is none. Then keep says under which hash this one should be kept, zero for not at all:
// what comes once may never come again.
func (p *Parts) find(by unsafe.Pointer, raw []byte) (known part, keep uint64) {
	if p == nil || len(raw) > maxPart {
		return part{}, 0
	}
	if p.once == nil {
		p.once, p.seed = make([]marks, onceLen), maphash.MakeSeed()
	}
	hash := maphash.Bytes(p.seed, raw) + uint64(uintptr(by))
	if known = p.known[hash]; known.by == by && known.raw == string(raw) {
		return known, 0
	}
	seen, mark := &p.once[hash%onceLen], uint32(hash>>32)
	if slices.Contains(seen[:], mark) {
		return part{}, hash
	}
	copy(seen[1:], seen[:])
	seen[0] = mark
	return part{}, 0
}

func (p *Parts) keep(hash uint64, by unsafe.Pointer, raw []byte, value unsafe.Pointer, length int) {
	if p.known == nil || p.size > maxParts {
		p.known, p.size = map[uint64]part{}, 0
	}
	p.known[hash] = part{by, string(raw), value, length}
	p.size += len(raw) + overhead
}
