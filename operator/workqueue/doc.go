// Package workqueue is the queue between the event handlers of a controller and its workers.
//
// A [Queue] holds keys, not work: the work follows from the current state of the object that a key
// names. The queue is
//
//   - fair: keys of equal priority are processed in the order in which they were added;
//   - stingy: a waiting key is in the queue once, however often it is added; a key that is being
//     processed is not given to a second worker, and is queued again, once, if it was added in the
//     meantime;
//   - patient: keys can be added with a delay ([Queue.AddAfter]) or a backoff
//     ([Queue.AddRateLimited]); the earliest time wins;
//   - just: higher priorities come first, and with [Config].Aging no key starves.
//
// Every key has a payload with the reason why it was added. Adds of a waiting key merge their
// payloads ([Config].Merge).
//
//	               AddAfter                 due
//	┌──────┐ ───────────────────▶ waiting ───────┐
//	│ idle │                                     ▼        Get
//	└──────┘ ──────── Add ─────────────────▶ queued ─────────────▶ running ──Done──▶ idle
//	                                             ▲                    │ Add
//	                                             └─────── Done ──── held
//
// # Use
//
//	q := workqueue.New(workqueue.Config[string, struct{}]{})
//	for {
//		item, err := q.Get(ctx)
//		if err != nil {
//			return err // the context's, or ErrShutDown
//		}
//		if err := work(item.Key); err != nil {
//			q.AddRateLimited(item.Key, struct{}{})
//		} else {
//			q.Forget(item.Key)
//		}
//		q.Done(item)
//	}
//
// # Concurrency
//
// All methods are safe for concurrent use. A queue has no goroutine; it has one timer while keys
// are delayed.
package workqueue
