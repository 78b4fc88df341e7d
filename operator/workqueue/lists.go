package workqueue

import (
	"math"
	"slices"
)

// state describes whether and where an entry waits. It is independent of whether the entry is
// running.
type state uint8

const (
	idle    state = iota // not queued: running or resting
	waiting              // in the heap, until it is due
	queued               // in a level
	held                 // added while running: Done queues it
)

// entry is the state of a key.
type entry[T comparable, P any] struct {
	key      T
	payload  P
	priority int
	state    state
	running  bool
	due      int64 // waiting: when to queue it
	index    int   // waiting: index in the heap
	stamp    int64 // queued: when it was queued; running: when it was returned by Get

	turn uint64 // number of times Get has returned the entry, for any key

	next, prev *entry[T, P] // neighbors in its list: a level, or the running entries
	list       *list[T, P]  // that list
}

// list is a doubly linked list of entries.
type list[T comparable, P any] struct {
	head, tail *entry[T, P]
	size       int
	priority   int
}

func (l *list[T, P]) push(e *entry[T, P]) {
	e.list, e.prev, e.next = l, l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.size++
}

func (l *list[T, P]) remove(e *entry[T, P]) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.list, e.prev, e.next = nil, nil, nil
	l.size--
}

// level returns the list of a priority, and creates it if necessary.
func (q *Queue[T, P]) level(priority int) *list[T, P] {
	i := 0
	for ; i < len(q.levels); i++ {
		if p := q.levels[i].priority; p == priority {
			return q.levels[i]
		} else if p < priority {
			break
		}
	}
	l := q.spareLevel
	if q.spareLevel = nil; l == nil {
		l = new(list[T, P])
	}
	l.priority = priority
	q.levels = slices.Insert(q.levels, i, l)
	return l
}

// unlink removes an entry from its level, and the level if it becomes empty.
func (q *Queue[T, P]) unlink(e *entry[T, P]) {
	l := e.list
	l.remove(e)
	q.ready--
	if q.metrics != nil {
		q.metrics.Depth(l.priority, l.size)
	}
	if l.head == nil {
		i := slices.Index(q.levels, l)
		q.levels = slices.Delete(q.levels, i, i+1)
		q.spareLevel = l
	}
}

// raise increases the priority of a waiting entry.
func (q *Queue[T, P]) raise(e *entry[T, P], priority int) {
	if priority <= e.priority {
		return
	}
	from := e.priority
	e.priority = priority
	if e.state != queued {
		return
	}
	if q.aging > 0 && q.now()-e.stamp >= q.lead(priority)-q.lead(from) {
		e.priority = from // its age counts more than a place at the end of the higher level
		return
	}
	q.unlink(e)
	e.state = idle
	q.enqueue(e)
}

// next returns the entry that Get returns next. Within a level, that is the oldest. Between levels,
// an entry of priority p that was queued at time t has at time now the age-adjusted priority p +
// (now-t)/aging, so it is enough to compare t - p*aging at any time.
func (q *Queue[T, P]) next() *entry[T, P] {
	best := q.levels[0].head
	if q.aging == 0 || len(q.levels) == 1 {
		return best
	}
	rank := best.stamp - q.lead(best.priority)
	for _, l := range q.levels[1:] {
		if r := l.head.stamp - q.lead(l.priority); r < rank {
			best, rank = l.head, r
		}
	}
	return best
}

// lead returns how much age a priority is worth, compared to priority 0. Extreme priorities are
// worth decades.
func (q *Queue[T, P]) lead(priority int) int64 {
	most := math.MaxInt64 / 8 / q.aging
	return max(-most, min(most, int64(priority))) * q.aging
}

// maxResting bounds two sets of entries: those without pending work, which stay in the map because
// most keys come back, and those that are kept for reuse. They take a few megabytes, little
// compared to the objects of so many keys.
const maxResting = 16384

// entry returns the entry of a key, and creates it if necessary.
func (q *Queue[T, P]) entry(key T) *entry[T, P] {
	e := q.entries[key]
	if e != nil {
		if e.state == idle && !e.running {
			q.resting--
		}
		return e
	}
	if e = q.spares; e != nil {
		q.spares, e.next = e.next, nil
	} else {
		e = &entry[T, P]{}
	}
	e.key = key
	q.entries[key] = e
	return e
}

// addResting counts an entry without pending work. If there are too many, it removes all of them.
func (q *Queue[T, P]) addResting(e *entry[T, P]) {
	if q.resting++; q.resting > maxResting {
		q.forgetResting()
	}
}

// forgetResting removes all resting entries from the map. They become the spares. No earlier spares
// are lost, because there are none when so many entries rest.
func (q *Queue[T, P]) forgetResting() {
	q.spares, q.resting = nil, 0
	for key, e := range q.entries {
		if e.state == idle && !e.running {
			delete(q.entries, key)
			*e = entry[T, P]{turn: e.turn, next: q.spares}
			q.spares = e
		}
	}
}
