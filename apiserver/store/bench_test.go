package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/require"
)

// filled returns a store with n pods of 1 KB.
func filled(b *testing.B, n int) *Store {
	b.Helper()
	s, err := Open(Config{})
	require.NoError(b, err)
	b.Cleanup(func() { s.Close() })
	const unit = 1000
	for i := 0; i < n; i += unit {
		ops := make([]Op, min(unit, n-i))
		for j := range ops {
			ops[j] = Op{Key: podKey(i + j), Data: pod(podKey(i+j).Name, 1024)}
		}
		_, err = s.Commit(context.Background(), ops...)
		require.NoError(b, err)
	}
	return s
}

func podKey(i int) Key {
	return Key{Resource: "pods", Namespace: fmt.Sprint("ns-", i%100), Name: fmt.Sprint("web-6d4cf56db6-", i)}
}

// BenchmarkCommit updates pods in memory; every writer has its own.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			s := filled(b, 10_000)
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					op := Op{Key: podKey(w), Data: pod(podKey(w).Name, 1024), Expect: AnyRevision}
					for left.Add(-1) >= 0 {
						if _, err := s.Commit(context.Background(), op); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// BenchmarkCreate puts new pods with owners and uids into a growing store, from 64 writers.
func BenchmarkCreate(b *testing.B) {
	s := filled(b, 0)
	b.ReportAllocs()
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		all.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if _, err := s.Commit(context.Background(), Op{Key: podKey(i), Data: pod(podKey(i).Name, 1024)}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkIdleCursors measures a commit to one resource while 10,000 cursors wait for another
// resource, and for the same.
func BenchmarkIdleCursors(b *testing.B) {
	for _, resource := range []string{"nodes", "pods"} {
		b.Run(resource, func(b *testing.B) {
			s := filled(b, 1000)
			ctx, cancel := context.WithCancel(context.Background())
			var all sync.WaitGroup
			var delivered atomic.Int64
			for range 10_000 {
				c, err := s.Watch(resource, s.Snapshot().Revision())
				require.NoError(b, err)
				all.Go(func() {
					for {
						events, _, err := c.Next()
						if err != nil {
							b.Error(err)
							return
						}
						delivered.Add(int64(len(events)))
						select {
						case <-c.Ready():
						case <-ctx.Done():
							return
						}
					}
				})
			}
			op := Op{Key: podKey(1), Data: pod(podKey(1).Name, 1024), Expect: AnyRevision}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				_, err := s.Commit(ctx, op)
				require.NoError(b, err)
			}
			if resource == "pods" {
				for delivered.Load() < int64(b.N)*10_000 {
					if b.Elapsed().Minutes() > 1 {
						b.Fatal("not delivered")
					}
				}
				b.ReportMetric(float64(delivered.Load())/b.Elapsed().Seconds(), "events/s")
			}
			b.StopTimer()
			cancel()
			all.Wait()
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := filled(b, 100_000)
	b.Run("take", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Snapshot()
		}
	})
	sn := s.Snapshot()
	b.Run("get", func(b *testing.B) {
		key := podKey(4711)
		b.ReportAllocs()
		for b.Loop() {
			if sn.Get(key) == nil {
				b.Fatal("not there")
			}
		}
	})
	b.Run("scan 1000", func(b *testing.B) {
		for b.Loop() {
			for range sn.Scan("pods", "ns-42", Key{}) {
			}
		}
	})
	b.Run("by uid", func(b *testing.B) {
		uid := types.UID(podKey(4711).Name + "-5f2d-4c3a-9a3e-0123456789ab")
		for b.Loop() {
			if sn.ByUID(uid) == nil {
				b.Fatal("not there")
			}
		}
	})
	b.Run("fork and close", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sn.Fork().Close()
		}
	})
	b.Run("at 100 revisions ago", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.At(sn.Revision() - 100); err != nil && !errors.Is(err, ErrCompacted) {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCursor(b *testing.B) {
	s := filled(b, 10_000)
	b.Run("watch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := s.Watch("pods", s.Snapshot().Revision())
			require.NoError(b, err)
		}
	})
	b.Run("next, nothing", func(b *testing.B) {
		c, err := s.Watch("pods", s.Snapshot().Revision())
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			c.Next()
		}
	})
}
