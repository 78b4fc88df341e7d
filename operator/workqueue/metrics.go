package workqueue

import "time"

// Metrics is told what happens in one queue. The calls are made while the queue is locked: they must be quick and must not call it.
type Metrics interface {
	// Depth is the number of keys that are ready to be handed out, after each change.
	Depth(n int)
	// Added is called when a key begins to wait or is queued, not for adds that merge with one that is there.
	Added()
	// Got is called when a key is handed out, with the time since it was ready.
	Got(waited time.Duration)
	// Finished is called when a worker is done with a key, with the time since it was handed out.
	Finished(worked time.Duration)
	// Retried is called for each rate-limited add.
	Retried()
}

// Stats is the state of a queue at one moment.
type Stats struct {
	Ready   int // keys that could be handed out now
	Waiting int // keys that were added for later
	Running int // keys that workers hold

	// Unfinished is the sum of the times for which the running keys have been held, and Longest the greatest of them.
	// Both are kept only for a queue with Metrics or Aging.
	Unfinished, Longest time.Duration
}

// Stats counts what is in the queue.
func (q *Queue[T, P]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Ready: q.ready, Waiting: len(q.waiting), Running: q.runningCount}
	if !q.stamps {
		return s
	}
	now := q.now()
	for e := q.running.head; e != nil; e = e.next {
		d := time.Duration(now - e.stamp)
		s.Unfinished += d
		s.Longest = max(s.Longest, d)
	}
	return s
}
