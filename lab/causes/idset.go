package causes

// idSet is a set of the IDs of one run, which ascend. It remembers the newest million of them
// exactly, and assumes that it has all older ones.
type idSet struct {
	base uint64   // ID of the first bit; a multiple of 64
	bits []uint64 // from base
}

const maxIDs = 1 << 20

func (s *idSet) add(id uint64) {
	if s.bits == nil {
		s.base = id &^ 63
	}
	if id < s.base {
		return // assumed
	}
	word := int((id - s.base) / 64)
	if excess := word + 1 - maxIDs/64; excess > 0 {
		dropped := min(excess, len(s.bits))
		s.bits = append(s.bits[:0], s.bits[dropped:]...)
		s.base += uint64(excess) * 64
		word -= excess
	}
	for len(s.bits) <= word {
		s.bits = append(s.bits, 0)
	}
	s.bits[word] |= 1 << (id % 64)
}

// has reports whether an ID is in the set. A nil set is empty.
func (s *idSet) has(id uint64) bool {
	if s == nil || s.bits == nil {
		return false
	}
	if id < s.base {
		return true
	}
	word := (id - s.base) / 64
	return word < uint64(len(s.bits)) && s.bits[word]&(1<<(id%64)) != 0
}
