package workqueue

import "slices"

// state says whether and where an entry waits. Whether it is running is independent of that.
type state uint8

const (
	idle    state = iota // nothing wants it: it is running or resting
	waiting              // in the heap, until it is due
	queued               // in a level
	held                 // wanted, but running: Done queues it
)

// entry is all that the queue knows of a key.
type entry[T comparable, P any] struct {
	key      T
	payload  P
	priority int
	state    state
	running  bool
	due      int64 // waiting: when to queue it
	index    int   // waiting: place in the heap
	stamp    int64 // queued: since when; running: since when

	turn uint64 // counts how often it was handed out, for whatever key

	next, prev *entry[T, P] // neighbours in its list: a level, or the running
	list       *list[T, P]  // that list
}

// list is a doubly linked list of entries, threaded through them.
type list[T comparable, P any] struct {
	head, tail *entry[T, P]
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
}

// level is the list of a priority, made if there is none.
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

// unlink takes an entry out of its level, and the level away when that was its last.
func (q *Queue[T, P]) unlink(e *entry[T, P]) {
	l := e.list
	l.remove(e)
	q.ready--
	if l.head == nil {
		i := slices.Index(q.levels, l)
		q.levels = slices.Delete(q.levels, i, i+1)
		q.spareLevel = l
	}
}

// raise gives an entry that waits a higher priority.
func (q *Queue[T, P]) raise(e *entry[T, P], priority int) {
	if priority <= e.priority {
		return
	}
	from := e.priority
	e.priority = priority
	if e.state != queued {
		return
	}
	if q.aging > 0 && q.now()-e.stamp >= int64(priority-from)*q.aging {
		e.priority = from // its age counts for more than a place at the end of the higher level
		return
	}
	q.unlink(e)
	e.state = idle
	q.enqueue(e)
}

// next is the entry to hand out. Within a level the head is the oldest. Between levels, an entry of priority p that was queued at t
// has at any later time the age-adjusted priority p + (now-t)/aging; comparing those is comparing t - p*aging, whatever the time is.
func (q *Queue[T, P]) next() *entry[T, P] {
	best := q.levels[0].head
	if q.aging == 0 || len(q.levels) == 1 {
		return best
	}
	rank := best.stamp - int64(best.priority)*q.aging
	for _, l := range q.levels[1:] {
		if r := l.head.stamp - int64(l.priority)*q.aging; r < rank {
			best, rank = l.head, r
		}
	}
	return best
}

// maxResting bounds the entries that stay in the map although nothing wants them, as most keys come back; and so what is kept for reuse
// when they are forgotten. They are a few megabytes, which is little beside the objects that so many keys name.
const maxResting = 16384

// entry finds the entry of a key, or makes one.
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

// rest is called for an entry that nothing wants any longer.
func (q *Queue[T, P]) rest(e *entry[T, P]) {
	if q.resting++; q.resting > maxResting {
		q.forgetResting()
	}
}

// forgetResting empties the map of what rests. The entries replace the spares, which there are none of if so many came to rest.
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
