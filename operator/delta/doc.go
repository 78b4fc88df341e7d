// Package delta has queues between a source of changes and their consumer.
//
// # Model
//
// A [Queue] holds, per key, all changes since the key was last popped, in order:
//
//	keys:   a      b      c            Pop returns one key with all its changes, longest waiting first
//	        +      +      +
//	      Added  Updated Deleted
//	      Updated        Added
//
// A slow consumer therefore handles an object once and receives all its changes. In particular, it
// never misses that an object was deleted and recreated. client-go's DeltaFIFO does the same. A
// [FIFO] holds only the newest object of each key. Reconcilers need neither, because they compare
// states; the example of [Queue] shows a consumer that must see each change.
//
// Nothing is lost or delivered twice: changes after a key was popped are returned when it is popped
// next, and a Replace adds deletions for all objects that it lacks, including the one being
// processed.
//
// Both are reflector sinks, safe for concurrent use and unbounded, and run no goroutines:
//
//	pods := store.NewIndexer(…)
//	queue := delta.NewQueue(delta.Config[client.Key, *corev1.Pod]{Key: keyOf, Known: pods})
//	go reflector.New(reflector.Config[*corev1.Pod]{Source: source, Sink: queue}).Run(ctx)
//	for {
//		err := queue.Pop(ctx, func(key client.Key, deltas delta.Deltas[*corev1.Pod], initial bool) error { … })
//	}
package delta
