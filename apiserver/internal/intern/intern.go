// Package intern returns shared strings for byte slices that were read before: field names, kinds,
// user-defined words. Most strings of an object also occur in other objects.
//
//	t := pool.Get()
//	defer pool.Put(t)
//	name := t.Text(bytes)
package intern

import (
	"hash/maphash"
	"sync"
)

// Texts is a cache of strings, indexed by hash. It is not safe for concurrent use.
type Texts struct {
	seed  maphash.Seed
	slots [512]string
}

// maxCached is the length of the longest string that is cached.
const maxCached = 48

// Text returns b as a string, from the cache if possible.
func (t *Texts) Text(b []byte) string {
	if len(b) > maxCached || len(b) == 0 {
		return string(b)
	}
	slot := &t.slots[maphash.Bytes(t.seed, b)%uint64(len(t.slots))]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// Pool is a pool of Texts. The zero value is ready for use.
type Pool struct{ pool sync.Pool }

// Get returns Texts from the pool, or new ones.
func (p *Pool) Get() *Texts {
	if t, ok := p.pool.Get().(*Texts); ok {
		return t
	}
	return &Texts{seed: maphash.MakeSeed()}
}

// Put returns Texts to the pool.
func (p *Pool) Put(t *Texts) { p.pool.Put(t) }
