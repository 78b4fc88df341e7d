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

// BenchmarkQueue measures one key's way through the queue: Add, Get, Done. One goroutine adds distinct keys, workers take them.
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
						q.Done(item.Key)
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

// feed adds b.N keys in rounds, each of which is worked off before the next begins, so that no add is dropped as a duplicate.
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

// BenchmarkSerial is the same in one goroutine: the cost of the queue without that of the scheduler.
func BenchmarkSerial(b *testing.B) {
	keys := benchKeys(100)
	b.Run("kelson", func(b *testing.B) {
		b.ReportAllocs()
		q := New(Config[key, struct{}]{})
		for n := 0; n < b.N; n += len(keys) {
			for _, k := range keys {
				q.Add(k, struct{}{})
			}
			for range keys {
				item, _ := q.Get(context.Background())
				q.Done(item.Key)
			}
		}
	})
	b.Run("client-go", func(b *testing.B) {
		b.ReportAllocs()
		q := peer.NewTyped[key]()
		for n := 0; n < b.N; n += len(keys) {
			for _, k := range keys {
				q.Add(k)
			}
			for range keys {
				k, _ := q.Get()
				q.Done(k)
			}
		}
		q.ShutDown()
	})
}
