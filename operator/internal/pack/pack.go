// Package pack stores many similar byte strings in little memory, such as encoded objects of one
// kind.
//
// # Model
//
// A [Packer] has a dictionary of the first strings that it could not pack well. A packed string
// consists of its new parts, and of references to the dictionary, or to itself, from where the rest
// is copied:
//
//	┌ literals ┬ copy ┐┌ literals ┬ copy ┐ …  ┌ literals ┐
//
// For objects of one kind, it stores names, versions and times, and a few bytes for everything
// between them. Unpacking only copies.
//
// A dictionary only grows, so that strings packed with an earlier state stay readable. When it is
// full and new strings don't match it, the packer starts a new one; strings packed with the old one
// keep it alive.
//
// All methods are safe for concurrent use.
//
//	p := pack.New()
//	packed := p.Pack(data)
//	data = packed.Unpack(nil)
package pack

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// maxDictionary bounds the size of a dictionary. A dictionary rarely has many strings; the
	// bound matters for large strings.
	maxDictionary = 128 << 10
	// The first learnFirst strings are added to the dictionary, and later ones that pack to more
	// than 1/learnBelow of their size.
	learnFirst = 3
	learnBelow = 4
	// renewAfter is the number of consecutive strings that pack badly after which a full dictionary
	// is replaced; it doubles for each following one. Otherwise dissimilar strings would fill the
	// memory with dictionaries.
	renewAfter = 256

	hashBits = 15
	minMatch = 6
)

// Packed is a packed string. The zero value is the empty string.
type Packed struct {
	dict *dictionary
	data string
}

// Size returns the approximate memory size, without the dictionary.
func (p Packed) Size() int { return len(p.data) + 24 }

// dictionary is the source of the copies. Its text only grows.
type dictionary struct{ text atomic.Pointer[[]byte] }

func (d *dictionary) bytes() []byte { return *d.text.Load() }

// Packer packs strings. Create it with New.
type Packer struct {
	mu   sync.Mutex
	dict *dictionary
	// hash of the next bytes → their position in the dictionary plus one; nil before the first
	// string
	places   []int32
	local    [1 << 11]int32
	learned  int // strings in the dictionary
	misfit   int // consecutive strings that packed badly
	patience int // limit for misfit
	out      []byte
}

// New returns a packer.
func New() *Packer { return &Packer{} }

// Dictionary returns the size of the current dictionary.
func (p *Packer) Dictionary() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dict == nil {
		return 0
	}
	return len(p.dict.bytes())
}

// Pack packs data. It retains data only as a copy in the dictionary.
func (p *Packer) Pack(data []byte) Packed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dict == nil {
		p.renew()
	}
	p.compress(data)
	if p.learned < learnFirst || len(p.out)*learnBelow > len(data)+64 {
		if p.learn(data) {
			p.compress(data)
		}
	} else {
		p.misfit = 0
	}
	return Packed{p.dict, string(p.out)}
}

func (p *Packer) renew() {
	p.dict = &dictionary{}
	p.dict.text.Store(new([]byte))
	if p.places == nil {
		p.places, p.patience = make([]int32, 1<<hashBits), renewAfter
	} else {
		clear(p.places)
		p.patience *= 2
	}
	p.learned, p.misfit = 0, 0
}

// learn appends data to the dictionary, or starts a new one if it is full and has been useless for
// a while.
func (p *Packer) learn(data []byte) bool {
	old := p.dict.bytes()
	if len(old)+len(data) > maxDictionary {
		if p.misfit++; p.misfit < p.patience || len(data) > maxDictionary {
			return false
		}
		p.renew()
		old = nil
	}
	// Allocate a new array of the exact size each time: this is rare, and readers use the old one.
	text := make([]byte, 0, len(old)+len(data))
	text = append(append(text, old...), data...)
	p.dict.text.Store(&text)
	p.learned++
	for n := max(len(old)-minMatch, 0); n+8 <= len(text); n++ {
		p.places[hash(load(text, n), hashBits)] = int32(n + 1)
	}
	return true
}

func load(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// hash returns the hash of the first minMatch bytes.
func hash(v uint64, to int) uint64 { return (v << (64 - 8*minMatch)) * 0x9E3779B185EBCA87 >> (64 - to) }

// compress appends the length of data, then alternating literals and copies up to that length. A
// copy has a length and a source: a flag for data itself, and the distance from the expected
// position, which is the end of the previous copy plus the number of literals. If objects differ in
// a value of equal length, the distance is 0.
func (p *Packer) compress(data []byte) {
	dict := p.dict.bytes()
	clear(p.local[:])
	out := binary.AppendUvarint(p.out[:0], uint64(len(data)))
	expect := 0 // expected position in the dictionary for the current literal
	begin := 0  // start of the literals
	for at := 0; at+8 <= len(data); {
		v := load(data, at)
		from, isLocal, length := 0, false, 0
		if e := expect + at - begin; e >= 0 && e+8 <= len(dict) {
			if n := common(dict[e:], data[at:]); n >= minMatch {
				from, length = e, n
			}
		}
		if length == 0 {
			h := hash(v, hashBits)
			if d := int(p.places[h]) - 1; d >= 0 {
				if n := common(dict[d:], data[at:]); n >= minMatch {
					from, length = d, n
				}
			}
		}
		slot := &p.local[hash(v, 11)]
		if l := int(*slot) - 1; l >= 0 && length < 32 {
			if n := common(data[l:], data[at:]); n >= minMatch && n > length {
				from, length, isLocal = l, n, true
			}
		}
		*slot = int32(at + 1)
		if length == 0 {
			at++
			continue
		}
		// The match may start earlier, within the literals.
		source := dict
		if isLocal {
			source = data
		}
		for at > begin && from > 0 && source[from-1] == data[at-1] {
			at, from, length = at-1, from-1, length+1
		}
		out = binary.AppendUvarint(out, uint64(at-begin))
		out = append(out, data[begin:at]...)
		out = binary.AppendUvarint(out, uint64(length-minMatch))
		if isLocal {
			out = binary.AppendUvarint(out, uint64(at-from)<<1|1)
		} else {
			out = binary.AppendUvarint(out, zigzag(from-expect-(at-begin))<<1)
			expect = from + length
		}
		at += length
		begin = at
	}
	if begin < len(data) {
		out = binary.AppendUvarint(out, uint64(len(data)-begin))
		out = append(out, data[begin:]...)
	}
	p.out = out
}

// common returns the length of the common prefix.
func common(a, b []byte) int {
	n := 0
	for n+8 <= len(a) && n+8 <= len(b) {
		if diff := load(a, n) ^ load(b, n); diff != 0 {
			return n + bits.TrailingZeros64(diff)/8
		}
		n += 8
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func zigzag(n int) uint64   { return uint64(n<<1) ^ uint64(n>>63) }
func unzigzag(u uint64) int { return int(u>>1) ^ -int(u&1) }

// Unpack appends the unpacked string to a buffer.
func (p Packed) Unpack(to []byte) []byte {
	if p.dict == nil {
		return to
	}
	in := p.data
	next := func() int {
		var v uint64
		for shift := 0; ; shift += 7 {
			b := in[0]
			in = in[1:]
			v |= uint64(b&0x7f) << shift
			if b < 0x80 {
				return int(v)
			}
		}
	}
	dict := p.dict.bytes()
	size := next()
	begin := len(to)
	if cap(to)-begin < size {
		grown := make([]byte, begin, begin+size)
		copy(grown, to)
		to = grown
	}
	expect := 0
	for len(to)-begin < size {
		literals := next()
		to = append(to, in[:literals]...)
		in = in[literals:]
		if len(to)-begin == size {
			break
		}
		length := next() + minMatch
		where := next()
		if where&1 == 0 {
			from := expect + literals + unzigzag(uint64(where)>>1)
			to = append(to, dict[from:from+length]...)
			expect = from + length
			continue
		}
		// A copy from the output may overlap its own result.
		for from := len(to) - where>>1; length > 0; {
			n := min(length, len(to)-from)
			to = append(to, to[from:from+n]...)
			from, length = from+n, length-n
		}
	}
	return to
}
