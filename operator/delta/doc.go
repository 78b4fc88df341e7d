// Package delta has queues between what hears of changes and what works on them.
//
// # Model
//
// A [Queue] holds, per key, every change since the key was taken last, in order:
//
//	keys:   a      b      c            Pop takes a whole key at a time, the one that has waited longest
//	        +      +      +
//	      Added  Updated Deleted
//	      Updated        Added
//
// So a consumer that is late handles an object once, sees all that happened to it, and in particular never misses that it
// was deleted and made again. It is known elsewhere as DeltaFIFO. A [FIFO] holds the newest object of each key instead.
//
// Nothing is lost and nothing told twice: what was put in after a key was taken comes with the next time it is taken, and a Replace
// tells the deletion of everything it lacks, including what is being processed just then.
//
// Both are reflector sinks, safe for concurrent use, unbounded, and run no goroutines:
//
//	pods := store.NewIndexer(…)
//	queue := delta.NewQueue(delta.Config[client.Key, *corev1.Pod]{Key: keyOf, Known: pods})
//	go reflector.New(reflector.Config[*corev1.Pod]{Source: source, Sink: queue}).Run(ctx)
//	for {
//		err := queue.Pop(ctx, func(key client.Key, deltas delta.Deltas[*corev1.Pod], initial bool) error { … })
//	}
package delta
