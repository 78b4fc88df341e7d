package workqueue

import "time"

// Metrics receives events of one queue. The methods are called while the queue is locked: they must
// not block, and must not call the queue.
type Metrics interface {
	// Depth is called with the number of ready keys of a priority after each change.
	Depth(priority, n int)
	// Added is called when a key is added to the queue, but not for adds that merge with a waiting
	// key.
	Added()
	// Got is called when Get returns a key, with the time since it was ready.
	Got(waited time.Duration)
	// Finished is called by Done, with the time since Get.
	Finished(worked time.Duration)
	// Retried is called for each add with a delay.
	Retried()
}

// Stats is a snapshot of a queue.
type Stats struct {
	Ready   int // keys that Get can return now
	Waiting int // delayed keys
	Running int // keys between Get and Done

	// Unfinished is the sum of the times since the running keys were returned by Get, and Longest
	// the longest of them. Both are recorded only for queues with Metrics or Aging.
	Unfinished, Longest time.Duration
}

// Stats returns a snapshot of the queue.
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
