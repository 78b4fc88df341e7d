// Package store holds objects in memory, by key and by indexes.
//
// [Indexer] is a thread-safe map with any number of indexes, which can be added at any time. In
// [Expiring], objects expire unless they are put again. [Heap] returns the smallest object first.
// [Undelta] calls a function with the complete content after each change. The example of each shows
// a task that it is made for.
//
// All types are generic over the key K and the object T, safe for concurrent use, and run no
// goroutines. Objects are shared, not copied: callers must not modify an object after adding it.
//
//	pods := store.NewIndexer(store.Config[client.Key, *corev1.Pod]{Key: func(p *corev1.Pod) client.Key { return client.KeyOf(p) }})
//	pods.AddIndex("node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	onNode, err := pods.ByIndex("node", "worker-1")
package store
