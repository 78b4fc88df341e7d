package workqueue

// Drop removes keys from the queue: ready ones, delayed ones, and those added again while a worker
// has them. It also resets their backoff. A key that a worker has stays with it until Done, and is
// not queued again unless it is added again. Drop returns the number of removed keys. match is
// called while the queue is locked, and must not call it.
func (q *Queue[T, P]) Drop(match func(key T) bool) (dropped int) {
	keys, dropped := q.drop(match)
	for _, key := range keys {
		q.limiter.Forget(key)
	}
	return dropped
}

// drop is Drop without the limiter: keys are all that were found.
func (q *Queue[T, P]) drop(match func(key T) bool) (keys []T, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, e := range q.entries {
		if !match(key) {
			continue
		}
		keys = append(keys, key)
		if e.state == idle && !e.running {
			q.resting--
		}
		if e.state != idle {
			dropped++
			q.take(e)
		}
		if !e.running {
			delete(q.entries, key)
		}
	}
	if dropped > 0 {
		q.arm()
		q.checkDrained()
	}
	return keys, dropped
}

// take removes an entry from the queue or the heap, and drops its payload.
func (q *Queue[T, P]) take(e *entry[T, P]) {
	switch e.state {
	case waiting:
		q.waiting.remove(e)
	case queued:
		q.unlink(e)
	}
	var none P
	e.state, e.payload = idle, none
}
