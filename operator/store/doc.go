// Package store holds objects in memory: by key, and by what indexes say of them.
//
// [Indexer] is a thread-safe map with any number of indexes, which may be added while it is in use. [Expiring] forgets what
// has not been put again for a while, [Heap] gives out the smallest first, and [Undelta] tells a listener the whole content
// after each change.
//
// All are generic over the key K and the object T, safe for concurrent use, and run no goroutines. Objects are shared, not
// copied: nobody may change one after it was put in.
//
//	pods := store.NewIndexer(store.Config[client.Key, *corev1.Pod]{Key: func(p *corev1.Pod) client.Key { return client.KeyOf(p) }})
//	pods.AddIndex("node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	onNode, err := pods.ByIndex("node", "worker-1")
package store
