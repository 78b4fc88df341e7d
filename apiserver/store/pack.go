package store

import (
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// slabSize is the size of an allocation that holds the bytes of many objects.
	slabSize = 64 << 10
	// maxInSlab is the size from which bytes have an allocation of their own.
	maxInSlab = slabSize / 8
	// slabLength is the number of objects, or of events, in one allocation.
	slabLength = 113
	// maxPacked is the number of objects and events from which Pack does nothing, because writes
	// wait for it: copying takes about a microsecond for each.
	maxPacked = 200_000
)

// Pack moves the newest state and the watch log to new, dense memory. While a store grows, its
// objects share pages of memory with short-lived data, so that pages stay half empty; the memory
// that Pack leaves behind can be returned to the system by a garbage collection. Writes wait
// meanwhile, and watches wait while the log is copied. What readers hold stays valid.
//
// Pack is for a store that has become idle: packed objects keep each other's memory alive, so a
// store whose objects all change needs twice its memory until it is packed again. Pack does nothing
// if little has changed since the last call, if the store is very large, or if it is over a
// [Shared]; then packed is false. If old snapshots are pinned, it does nothing and returns the time
// after which their pins end. It drops the results of Memo.
func (s *Store) Pack() (packed bool, again time.Duration) { return s.driver.pack() }

func (c *committer) pack() (packed bool, again time.Duration) {
	r := &request{done: make(chan struct{}), task: func() { packed, again = c.repack() }}
	if c.queue.put(r) == nil {
		<-r.done
	}
	return packed, again
}

func (f *follower) pack() (packed bool, again time.Duration) { return false, 0 }

// repack runs in the committer's goroutine, so no write changes the state or the log meanwhile.
func (c *committer) repack() (packed bool, again time.Duration) {
	size, pinned := c.store.packable()
	size += c.view.objects.Len()
	if c.failure != nil || size > maxPacked || c.revision-c.packed < uint64(size/8) {
		return false, 0
	}
	if pinned > 0 {
		return false, pinned
	}
	c.packed = c.revision
	p := packer{budget: c.store.budget, objects: make(map[*Object]*Object, size), events: map[*Event]*Event{}}
	c.view = p.view(c.view)
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		for i, old := range l.chunks {
			l.chunks[i] = p.chunk(old)
		}
	}
	s.current.Store(c.freeze(s.config))
	s.budget.resize(c.view.bytes)
	return true, 0
}

// packable returns the number of events in the watch log, and the time after which the pins of old
// snapshots end; 0 if there are none.
func (s *Store) packable() (events int, pinned time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpin(now)
	for resource, l := range s.logs {
		if resource != "" { // that log has events of the others
			events += l.length
		}
	}
	for _, p := range s.pins {
		pinned = max(pinned, p.until.Sub(now)+time.Nanosecond)
	}
	return events, pinned
}

// packer copies objects and events.
type packer struct {
	budget  *budget
	objects map[*Object]*Object // copies
	events  map[*Event]*Event
	slabs   slabs
}

// slabs has the memory of new objects, their bytes and events: the free rest of the newest
// allocation of each kind. What shares an allocation keeps each other's memory alive. nil is valid:
// then each string has an allocation of its own.
type slabs struct {
	bytes   []byte
	objects []Object
	events  []Event
}

func (s *slabs) object() *Object { return take(&s.objects) }
func (s *slabs) event() *Event   { return take(&s.events) }

// take returns the next element of a slab, or the first one of a new slab.
func take[T any](slab *[]T) *T {
	if len(*slab) == 0 {
		*slab = make([]T, slabLength)
	}
	next := &(*slab)[0]
	*slab = (*slab)[1:]
	return next
}

// room returns n bytes with the capacity n, so that appending to them changes nothing else.
func (s *slabs) room(n int) []byte {
	if s == nil || n > maxInSlab {
		return make([]byte, n)
	}
	if n > len(s.bytes) {
		s.bytes = make([]byte, slabSize)
	}
	room := s.bytes[:n:n]
	s.bytes = s.bytes[n:]
	return room
}

// copy returns a copy of data.
func (s *slabs) copy(data []byte) []byte {
	room := s.room(len(data))
	copy(room, data)
	return room
}

// string returns the concatenation of texts.
func (s *slabs) string(texts ...string) string {
	n := 0
	for _, text := range texts {
		n += len(text)
	}
	if n == 0 {
		return ""
	}
	room := s.room(n)
	at := 0
	for _, text := range texts {
		at += copy(room[at:], text)
	}
	return unsafe.String(&room[0], n) // room is never changed
}

// view returns a copy of a view. Its indexes share the strings of the objects.
func (p *packer) view(old view) view {
	packed := newView()
	var uids indexEntries
	old.objects.Scan(func(_ string, obj *Object) bool {
		next, uidAndPath := p.object(obj)
		packed.objects.Load(next.path, next)
		if next.Head.UID != "" {
			uids.add(uidAndPath)
		}
		return true
	})
	uids.load(packed.uids)
	old.owners.Scan(func(entry string, _ struct{}) bool {
		packed.owners.Load(p.slabs.string(entry), struct{}{})
		return true
	})
	old.counts.Scan(func(resource string, n int) bool {
		packed.counts.Load(resource, n)
		return true
	})
	packed.bytes = old.bytes
	return packed
}

func (p *packer) chunk(old *chunk) *chunk {
	packed := &chunk{events: make([]*Event, len(old.events), cap(old.events)), bytes: old.bytes, sealed: old.sealed}
	for i, e := range old.events {
		packed.events[i] = p.event(e)
	}
	return packed
}

func (p *packer) event(old *Event) *Event {
	if next := p.events[old]; next != nil {
		return next
	}
	next := p.slabs.event()
	next.Type = old.Type
	next.Object, _ = p.object(old.Object)
	if old.Prev != nil {
		next.Prev, _ = p.object(old.Prev)
	}
	next.kept = old.kept
	next.memo.size, next.memo.sealed = old.memo.size, old.memo.isSealed()
	old.memo.seal(old.Object.budget)
	p.events[old] = next
	return next
}

// object returns the copy of an object. If it makes the copy, it also returns the object's entry in
// the index of UIDs.
func (p *packer) object(old *Object) (next *Object, uidAndPath string) {
	if next := p.objects[old]; next != nil {
		return next, ""
	}
	next = p.slabs.object()
	uidAndPath = p.slabs.string(string(old.Head.UID), separator, old.path)
	path := uidAndPath[len(old.Head.UID)+len(separator):]
	next.Data, next.version = p.slabs.copy(old.Data), old.version
	next.Revision, next.Created = old.Revision, old.Created
	next.Key, next.path = split(path), path
	next.Head = old.Head
	next.Head.UID = types.UID(uidAndPath[:len(old.Head.UID)])
	next.budget = p.budget
	next.memo.size, next.memo.sealed = old.memo.size, old.memo.isSealed()
	p.budget.seal(old)
	p.objects[old] = next
	return next, uidAndPath
}
