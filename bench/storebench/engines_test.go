package storebench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

func TestEnginesKeepTheContract(t *testing.T) {
	for _, e := range Engines() {
		t.Run(e.Name, func(t *testing.T) {
			storetest.RunBackend(t, func(t *testing.T) storetest.Reopen {
				dir := t.TempDir()
				return func() (store.Backend, error) { return e.Open(dir) }
			})
		})
	}
}

func open(b *testing.B, e Engine, dir string) *store.Store {
	b.Helper()
	backend, err := e.Open(dir)
	require.NoError(b, err)
	s, err := store.Open(store.Config{Backend: backend})
	require.NoError(b, err)
	return s
}

func key(i int) store.Key {
	return store.Key{Resource: "pods", Namespace: fmt.Sprint("ns-", i%100), Name: fmt.Sprint("web-6d4cf56db6-", i)}
}

// value returns an object of about 1 KB. It is hard to compress, like real objects with uids,
// hashes and times.
func value(i int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	var b strings.Builder
	fmt.Fprintf(&b, `{"metadata":{"uid":"%x","labels":{"app":"web"}},"spec":"`, i)
	for b.Len() < 1000 {
		fmt.Fprintf(&b, "%016x", r.Uint64())
	}
	b.WriteString(`"}`)
	return []byte(b.String())
}

func fill(b *testing.B, s *store.Store, n int) {
	b.Helper()
	const unit = 500
	for i := 0; i < n; i += unit {
		ops := make([]store.Op, min(unit, n-i))
		for j := range ops {
			ops[j] = store.Op{Key: key(i + j), Data: value(i + j), Expect: store.AnyRevision}
		}
		_, err := s.Commit(context.Background(), ops...)
		require.NoError(b, err)
	}
}

// BenchmarkCommit updates random objects of 1 KB among 10,000.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 32, 256} {
		for _, e := range Engines() {
			b.Run(fmt.Sprintf("%s/writers=%d", e.Name, writers), func(b *testing.B) {
				dir := b.TempDir()
				s := open(b, e, dir)
				defer s.Close()
				const objects = 10_000
				fill(b, s, objects)
				var left atomic.Int64
				left.Store(int64(b.N))
				var all sync.WaitGroup
				b.ResetTimer()
				for w := range writers {
					all.Go(func() {
						r := rand.New(rand.NewPCG(uint64(w), 2))
						data := value(w)
						for left.Add(-1) >= 0 {
							op := store.Op{Key: key(r.IntN(objects)), Data: data, Expect: store.AnyRevision}
							if _, err := s.Commit(context.Background(), op); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
				b.ReportMetric(size(b, dir), "MB")
			})
		}
	}
}

// BenchmarkStart opens a store of 100,000 objects of 1 KB, each written twice, some of them in many
// small batches.
func BenchmarkStart(b *testing.B) {
	for _, e := range Engines() {
		b.Run(e.Name, func(b *testing.B) {
			dir := b.TempDir()
			s := open(b, e, dir)
			const objects = 100_000
			fill(b, s, objects)
			fill(b, s, objects)
			r := rand.New(rand.NewPCG(3, 3))
			for range 300 {
				fill(b, s, r.IntN(5))
			}
			require.NoError(b, s.Close())
			b.ResetTimer()
			for range b.N {
				s := open(b, e, dir)
				b.StopTimer()
				require.Equalf(b, s.Snapshot().Count("pods", ""), objects, "objects")
				require.NoError(b, s.Close())
				b.StartTimer()
			}
			b.ReportMetric(size(b, dir), "MB")
		})
	}
}

// size returns the size of a directory.
func size(b *testing.B, dir string) float64 {
	var total int64
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := os.Stat(name); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	require.NoError(b, err)
	return float64(total) / 1e6
}
