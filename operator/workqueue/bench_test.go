package workqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"

	peer "k8s.io/client-go/util/workqueue"
)

// key is as large as the name of an object.
type key struct{ namespace, name string }

func benchKeys(n int) []key {
	keys := make([]key, n)
	for i := range keys {
		keys[i] = key{"default", fmt.Sprintf("object-%d", i)}
	}
	return keys
}

// BenchmarkQueue measures Add, Get and Done of a key. One goroutine adds distinct keys, and workers
// process them.
func BenchmarkQueue(b *testing.B) {
	keys := benchKeys(10000)
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("kelson/workers=%d", workers), func(b *testing.B) {
			b.ReportAllocs()
			q := New(Config[key, struct{}]{})
			var wg, all sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for {
						item, err := q.Get(context.Background())
						if err != nil {
							return
						}
						q.Done(item)
						all.Done()
					}
				})
			}
			feed(b, keys, &all, func(k key) { q.Add(k, struct{}{}) })
			q.ShutDown()
			wg.Wait()
		})
		b.Run(fmt.Sprintf("client-go/workers=%d", workers), func(b *testing.B) {
			b.ReportAllocs()
			q := peer.NewTyped[key]()
			var wg, all sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for {
						k, shutdown := q.Get()
						if shutdown {
							return
						}
						q.Done(k)
						all.Done()
					}
				})
			}
			feed(b, keys, &all, q.Add)
			q.ShutDown()
			wg.Wait()
		})
	}
}

// feed adds b.N keys in rounds. Each round ends before the next begins, so that no add is dropped
// as a duplicate.
func feed(b *testing.B, keys []key, all *sync.WaitGroup, add func(key)) {
	for n := b.N; n > 0; n -= len(keys) {
		round := keys[:min(n, len(keys))]
		all.Add(len(round))
		for _, k := range round {
			add(k)
		}
		all.Wait()
	}
}

// BenchmarkSerial is the same in one goroutine: the cost of the queue without that of the
// scheduler. The 100000 keys are more than the queue keeps entries for.
func BenchmarkSerial(b *testing.B) {
	for _, n := range []int{100, 100000} {
		keys := benchKeys(n)
		rounds := func(b *testing.B, add func(key), next func()) {
			b.ReportAllocs()
			for n := 0; n < b.N; n += 100 {
				first := n % len(keys)
				for _, k := range keys[first : first+100] {
					add(k)
				}
				for range 100 {
					next()
				}
			}
		}
		b.Run(fmt.Sprintf("kelson/keys=%d", n), func(b *testing.B) {
			q := New(Config[key, struct{}]{})
			rounds(b, func(k key) { q.Add(k, struct{}{}) }, func() {
				item, _ := q.Get(context.Background())
				q.Done(item)
			})
		})
		b.Run(fmt.Sprintf("client-go/keys=%d", n), func(b *testing.B) {
			q := peer.NewTyped[key]()
			rounds(b, q.Add, func() {
				k, _ := q.Get()
				q.Done(k)
			})
			q.ShutDown()
		})
	}
}
