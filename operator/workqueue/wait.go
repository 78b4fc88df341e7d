package workqueue

import (
	"container/heap"
	"context"
	"time"
)

// postpone delays an entry until due, unless it is already due earlier.
func (q *Queue[T, P]) postpone(e *entry[T, P], due int64) {
	if e.state == waiting {
		if due >= e.due {
			return
		}
		e.due = due
		heap.Fix(&q.waiting, e.index)
	} else {
		e.state, e.due = waiting, due
		heap.Push(&q.waiting, e)
	}
	q.arm()
}

// arm sets the timer for the first delayed entry. A timer that fires too early finds no due entry
// and is set again, so it need not be changed when the first entry is removed.
func (q *Queue[T, P]) arm() {
	if len(q.waiting) == 0 {
		if q.timerSet {
			q.timer.Stop()
			q.timerSet = false
		}
		return
	}
	first := q.waiting[0].due
	if q.timerSet && q.timerDue <= first {
		return
	}
	q.timerSet, q.timerDue = true, first
	d := time.Duration(first - q.now())
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.fire)
	} else {
		q.timer.Reset(d)
	}
}

// fire queues all due entries.
func (q *Queue[T, P]) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	q.timerSet = false
	for now := q.now(); len(q.waiting) > 0 && q.waiting[0].due <= now; {
		// Remove the entry here, because enqueue would arm the timer for each one.
		e := q.waiting[0]
		q.waiting.remove(e)
		e.state = idle
		q.enqueue(e)
	}
	q.arm()
}

// waitingHeap is a heap.Interface with the entry that is due first at its root.
type waitingHeap[T comparable, P any] []*entry[T, P]

func (h waitingHeap[T, P]) Len() int           { return len(h) }
func (h waitingHeap[T, P]) Less(i, j int) bool { return h[i].due < h[j].due }
func (h waitingHeap[T, P]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waitingHeap[T, P]) Push(x any) {
	e := x.(*entry[T, P])
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *waitingHeap[T, P]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}

func (h *waitingHeap[T, P]) remove(e *entry[T, P]) { heap.Remove(h, e.index) }

// sleeper is a worker that waits in Get.
type sleeper struct {
	woken chan struct{} // holds one
	next  *sleeper
}

// sleep waits to be woken, with the queue unlocked in the meantime. The last worker to sleep is
// woken first, because its stack is most likely still cached.
func (q *Queue[T, P]) sleep(ctx context.Context) error {
	s := q.spareSleeper
	if s == nil {
		s = &sleeper{woken: make(chan struct{}, 1)}
	} else {
		q.spareSleeper = s.next
	}
	s.next = q.sleepers
	q.sleepers = s
	q.mu.Unlock()

	var err error
	select {
	case <-s.woken:
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	if err == nil {
		q.waking = false
	} else if q.removeSleeper(s) {
		// It was not being woken.
	} else {
		// It was woken for a key that another worker must take now.
		<-s.woken
		q.waking = false
		if q.ready > 0 {
			q.wake()
		}
	}
	s.next = q.spareSleeper
	q.spareSleeper = s
	return err
}

func (q *Queue[T, P]) removeSleeper(s *sleeper) bool {
	for at := &q.sleepers; *at != nil; at = &(*at).next {
		if *at == s {
			*at = s.next
			return true
		}
	}
	return false
}

// wake wakes or starts one worker, unless one is already being woken or started.
func (q *Queue[T, P]) wake() {
	switch s := q.sleepers; {
	case q.waking:
	case s != nil:
		q.sleepers = s.next
		q.waking = true
		s.woken <- struct{}{}
	case q.startable > 0:
		q.startable--
		q.waking = true
		q.startOne()
	}
}
