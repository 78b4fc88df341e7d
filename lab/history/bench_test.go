package history_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
)

// BenchmarkHistory writes b.N versions of 10,000 pods and reports the size of a version in the
// file. Its other cases read from a history of a million versions.
func BenchmarkHistory(b *testing.B) {
	b.Run("put", func(b *testing.B) {
		file := fill(b, b.N)
		b.ReportMetric(float64(file.Len())/float64(b.N), "bytes/version")
	})
	const versions = 1_000_000
	var h *history.History
	open := func(b *testing.B) {
		if h == nil {
			h = read(b, fill(b, versions).Bytes())
		}
		b.ResetTimer()
	}
	b.Run("state and one object", func(b *testing.B) {
		open(b)
		for i := range b.N {
			revision := uint64(i)*7919%(versions-10_000) + 10_000
			if _, _, ok, err := h.At(revision).Get(key(i)); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("list of 10000 keys", func(b *testing.B) {
		open(b)
		for range b.N {
			require.Equal(b, len(h.At(versions/2).Objects("pods")), 10_000)
		}
	})
}

func key(i int) history.Key { return history.Key{"pods", "default", fmt.Sprintf("web-%d", i%10_000)} }

func fill(b *testing.B, versions int) *bytes.Buffer {
	var file bytes.Buffer
	w := newWriter(b, &file)
	for i := range versions {
		phase := []string{"Pending", "Running", "Succeeded"}[i/10_000%3]
		must(b, w.Put(key(i), uint64(i)+1, epoch.Add(time.Duration(i)*time.Millisecond),
			pod(key(i).Name, uint64(i)+1, phase)))
	}
	must(b, w.Flush())
	return &file
}
