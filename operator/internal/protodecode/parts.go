package protodecode

import (
	"hash/maphash"
	"slices"
	"unsafe"
)

// Parts has parts of earlier messages: slices, maps, and pointer targets. Most objects of a kind
// have most of these in common. It is not safe for concurrent use, and only for values that callers
// don't modify. The zero value is ready for use, and takes almost no memory until parts repeat.
type Parts struct {
	known map[uint64]part // by hash
	size  int             // encoded size of all parts
	seed  maphash.Seed
	once  []marks // parts seen once, by the last bits of their hashes
}

// marks are the first bits of some hashes, newest first. There are several per slot, so that parts
// of the same object don't evict each other.
type marks [4]uint32

// part is a slice, a map or a pointer.
type part struct {
	by     unsafe.Pointer // how it was decoded: a plan or a field
	raw    string         // its encoding
	value  unsafe.Pointer
	length int // of a slice or map
}

const (
	// maxPart is the largest encoded size of a shared part, and maxParts of all shared parts
	// together.
	maxPart  = 16 << 10
	maxParts = 128 << 10
	// overhead is the approximate size of a part in addition to its encoding.
	overhead = 64
	onceLen  = 128
)

// find returns an earlier part; its value is nil if none is known. In that case, keep is the hash
// under which the caller should keep the new part. It is zero for a part that should not be kept,
// because most parts never repeat.
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
