package messages

import (
	"hash/maphash"
	"unsafe"
)

// Parts are parts of messages that were read before: slices, maps, and what pointers point to. Most objects of a kind have most of these in
// common. It is for one goroutine, and for values that nobody changes. The zero value is ready, and takes next to no memory until there is
// something alike.
type Parts struct {
	known map[partKey]part
	size  int // of all that is known, encoded
	seed  maphash.Seed
	once  []uint32 // hashes of what came once, by their last bits
}

// partKey is how a part is read, a plan or a field, and what was read.
type partKey struct {
	by  unsafe.Pointer
	raw string
}

// part is a pointer, a map, or a slice and its length.
type part struct {
	value  unsafe.Pointer
	length int
}

const (
	// maxPart is the largest part that is looked for, encoded, and maxParts of all that are kept.
	maxPart  = 4 << 10
	maxParts = 128 << 10
	// overhead is what a part takes beyond its encoding, about.
	overhead = 64
	onceLen  = 512
)

// find is an earlier part. If there is none it says whether this one should be kept: what comes once may never come again.
func (p *Parts) find(by unsafe.Pointer, raw []byte) (known part, ok, keep bool) {
	if p == nil || len(raw) > maxPart {
		return part{}, false, false
	}
	if known, ok = p.known[partKey{by, string(raw)}]; ok {
		return known, true, false
	}
	if p.once == nil {
		p.once, p.seed = make([]uint32, onceLen), maphash.MakeSeed()
	}
	hash := maphash.Bytes(p.seed, raw)
	slot := &p.once[hash%onceLen]
	keep = *slot == uint32(hash>>32)
	*slot = uint32(hash >> 32)
	return part{}, false, keep
}

func (p *Parts) keep(by unsafe.Pointer, raw []byte, is part) {
	if p.known == nil || p.size > maxParts {
		p.known, p.size = map[partKey]part{}, 0
	}
	p.known[partKey{by, string(raw)}] = is
	p.size += len(raw) + overhead
}
