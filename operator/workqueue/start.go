package workqueue

import "sync"

// Start calls do and then Done for each key, in up to n goroutines. The goroutines exist only while
// keys are ready, so an idle queue needs none. Start replaces workers that call Get; it may be
// called once. The returned function stops the work. It returns when no call of do runs. Keys that
// are still ready then stay in the queue.
func (q *Queue[T, P]) Start(n int, do func(Item[T, P])) (stop func()) {
	var workers sync.WaitGroup
	q.mu.Lock()
	defer q.mu.Unlock()
	q.startable = n
	stopped := false // guarded by mu
	q.startOne = func() {
		workers.Go(func() {
			q.mu.Lock()
			q.waking = false
			for q.ready > 0 && !stopped {
				item := q.pop()
				q.mu.Unlock()
				do(item)
				q.Done(item)
				q.mu.Lock()
			}
			if !stopped {
				q.startable++
			}
			q.mu.Unlock()
		})
	}
	if q.ready > 0 {
		q.wake()
	}
	return func() {
		q.mu.Lock()
		stopped, q.startable = true, 0
		q.mu.Unlock()
		workers.Wait()
	}
}
