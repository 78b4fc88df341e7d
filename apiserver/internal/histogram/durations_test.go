package histogram_test

import (
	"testing"
	"time"

	"kelson.dev/apiserver/internal/histogram"
)

func TestHistogram(t *testing.T) {
	var h histogram.Histogram
	for _, test := range []struct {
		took   time.Duration
		bucket int
	}{{-1, 0}, {0, 0}, {999, 0}, {time.Microsecond, 1}, {1999, 1}, {2 * time.Microsecond, 2}, {time.Millisecond, 10}, {10 * time.Second, 24}, {time.Hour, 25}} {
		before := h.Read()
		h.Observe(test.took)
		after := h.Read()
		if after.Buckets[test.bucket] != before.Buckets[test.bucket]+1 || after.Count != before.Count+1 {
			t.Errorf("%v is not in bucket %d: %v", test.took, test.bucket, after.Buckets)
		}
		if test.bucket < histogram.Buckets-1 && test.took >= histogram.Bound(test.bucket) || test.bucket > 0 && test.took < histogram.Bound(test.bucket-1) {
			t.Errorf("%v is not within the bounds of bucket %d", test.took, test.bucket)
		}
	}
	if sum := h.Read().Sum; sum < time.Hour || sum > time.Hour+11*time.Second {
		t.Error(sum)
	}
	var none *histogram.Histogram
	none.Observe(1)
}

func BenchmarkSince(b *testing.B) {
	var h histogram.Histogram
	for b.Loop() {
		h.Since(time.Now())
	}
}
