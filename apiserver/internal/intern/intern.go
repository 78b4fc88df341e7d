// Package intern gives strings that were read before in the place of new ones: names of fields, kinds, users' words. Most of an object's strings
// are those of others like it.
//
//	t := pool.Get()
//	defer pool.Put(t)
//	name := t.Text(bytes)
package intern

import (
	"hash/maphash"
	"sync"
)

// Texts are strings that were read before, by their hash. It must not be used by several goroutines at once.
type Texts struct {
	seed  maphash.Seed
	slots [512]string
}

// longest is the longest string that is looked for.
const longest = 48

// Text is b as a string.
func (t *Texts) Text(b []byte) string {
	if len(b) > longest || len(b) == 0 {
		return string(b)
	}
	slot := &t.slots[maphash.Bytes(t.seed, b)%uint64(len(t.slots))]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// Pool has Texts for those who need some for a while. The zero value is ready for use.
type Pool struct{ pool sync.Pool }

// Get takes one.
func (p *Pool) Get() *Texts {
	if t, ok := p.pool.Get().(*Texts); ok {
		return t
	}
	return &Texts{seed: maphash.MakeSeed()}
}

// Put gives it back.
func (p *Pool) Put(t *Texts) { p.pool.Put(t) }
