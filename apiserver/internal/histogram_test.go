package internal_test

import (
	"testing"
	"time"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/internal/assert"
)

func TestHistogram(t *testing.T) {
	var h histogram.Histogram
	for _, test := range []struct {
		took   time.Duration
		bucket int
	}{{-1, 0}, {0, 0}, {999, 0}, {time.Microsecond, 1}, {1999, 1}, {2 * time.Microsecond, 2}, {time.Millisecond, 10},
		{10 * time.Second, 24}, {time.Hour, 25}} {
		before := h.Read()
		h.Observe(test.took)
		after := h.Read()
		if after.Buckets[test.bucket] != before.Buckets[test.bucket]+1 || after.Count != before.Count+1 {
			t.Errorf("%v is not in bucket %d: %v", test.took, test.bucket, after.Buckets)
		}
		if test.bucket < after.Bounded() && test.took >= after.Bound(test.bucket) ||
			test.bucket > 0 && test.took < after.Bound(test.bucket-1) {
			t.Errorf("%v is not within the bounds of bucket %d", test.took, test.bucket)
		}
	}
	if sum := h.Read().Sum; sum < time.Hour || sum > time.Hour+11*time.Second {
		t.Error(sum)
	}
	var none *histogram.Histogram
	none.Observe(1)
}

func TestScale(t *testing.T) {
	h := histogram.New(histogram.NewScale(time.Millisecond, time.Second))
	for _, d := range []time.Duration{-time.Second, time.Millisecond, time.Millisecond + 1, time.Second, time.Hour} {
		h.Observe(d)
	}
	c := h.Read()
	if c.Bounded() != 2 || c.Bound(0) != time.Millisecond || c.Bound(1) != time.Second {
		t.Errorf("%d bounds: %v, %v", c.Bounded(), c.Bound(0), c.Bound(1))
	}
	if c.Buckets[0] != 2 || c.Buckets[1] != 2 || c.Buckets[2] != 1 || c.Count != 5 {
		t.Errorf("%d durations: %v", c.Count, c.Buckets)
	}
	assert.Equalf(t, c.Sum, time.Hour+time.Second+2*time.Millisecond+1, "sum")
}

func BenchmarkSince(b *testing.B) {
	var h histogram.Histogram
	for b.Loop() {
		h.Since(time.Now())
	}
}
