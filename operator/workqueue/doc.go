// Package workqueue is the queue between the watchers of a controller and its workers.
//
// A [Queue] holds keys, not work: what is to be done follows from the present state of the thing the key names. It is
//
//   - fair: keys of one priority are handed out in the order in which they were added;
//   - stingy: a key that waits is there once, however often it is added; a key that is being processed is not handed to a second
//     worker, and is queued again, once, when it was added meanwhile;
//   - patient: a key may be added for later ([Queue.AddAfter]) or with a backoff ([Queue.AddRateLimited]); the earliest time wins;
//   - just: higher priorities go first, and with [Config].Aging no key starves.
//
// Every key carries a payload that says why it is there. Adds that fall together merge their payloads ([Config].Merge).
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
// All methods may be called from any goroutine. A queue owns no goroutine; it has one timer while something waits.
package workqueue
