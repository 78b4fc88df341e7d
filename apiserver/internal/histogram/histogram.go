// Package histogram counts durations in buckets, without locks and without a metrics library.
//
//	var syncs histogram.Histogram
//	…
//	defer syncs.Since(time.Now())
//	…
//	syncs.Read().Count
//
// A histogram has power-of-two buckets, or those of a [Scale]. Packages that must not depend on
// Prometheus count with it; package metrics exports the counts.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the number of buckets of a Histogram. Without a Scale, the first bucket counts
// durations below a microsecond, each further bucket those below twice the previous bound, and the
// last one those of about 17 seconds and more.
const Buckets = 26

// Scale defines the buckets of a Histogram by their upper bounds. A duration equal to a bound is in
// the bucket of that bound, as in Prometheus. A Scale is immutable; many histograms share one.
type Scale struct{ bounds []time.Duration }

// NewScale returns a Scale with ascending bounds. It panics if there are Buckets bounds or more.
func NewScale(bounds ...time.Duration) *Scale {
	if len(bounds) >= Buckets {
		panic("histogram: too many bounds")
	}
	return &Scale{bounds}
}

// Histogram counts durations. The zero value is empty and has power-of-two buckets. It is safe for
// concurrent use. Observe costs two atomic additions.
type Histogram struct {
	scale   *Scale // nil: power-of-two buckets
	sum     atomic.Int64
	buckets [Buckets]atomic.Uint64
}

// New returns an empty Histogram with the buckets of a Scale.
func New(scale *Scale) *Histogram { return &Histogram{scale: scale} }

// Since observes the time since start.
func (h *Histogram) Since(start time.Time) { h.Observe(time.Since(start)) }

// Observe counts a duration. Negative durations count as 0. On a nil Histogram it does nothing.
func (h *Histogram) Observe(d time.Duration) {
	if h == nil {
		return
	}
	d = max(d, 0)
	h.sum.Add(int64(d))
	h.buckets[h.scale.bucket(d)].Add(1)
}

// bucket searches linearly: most durations are in one of the first buckets.
func (s *Scale) bucket(d time.Duration) int {
	if s == nil {
		return min(bits.Len64(uint64(d/time.Microsecond)), Buckets-1)
	}
	for i, bound := range s.bounds {
		if d <= bound {
			return i
		}
	}
	return len(s.bounds)
}

// Counts holds the observations of a Histogram.
type Counts struct {
	Count   uint64
	Sum     time.Duration
	Buckets [Buckets]uint64

	scale *Scale
}

// Read returns the counts. Concurrent observations may be included in part.
func (h *Histogram) Read() (c Counts) {
	c.scale = h.scale
	c.Sum = time.Duration(h.sum.Load())
	for i := range h.buckets {
		c.Buckets[i] = h.buckets[i].Load()
		c.Count += c.Buckets[i]
	}
	return c
}

// Bounded returns the number of buckets that have an upper bound: all but the last.
func (c *Counts) Bounded() int {
	if c.scale == nil {
		return Buckets - 1
	}
	return len(c.scale.bounds)
}

// Bound returns the upper bound of a bucket below Bounded.
func (c *Counts) Bound(bucket int) time.Duration {
	if c.scale == nil {
		return time.Microsecond << bucket
	}
	return c.scale.bounds[bucket]
}
