// Package histogram counts how long things take, in buckets, without locks and without knowing who asks.
//
//	var syncs durations.Histogram
//	…
//	defer syncs.Since(time.Now())
//	…
//	syncs.Read().Count
//
// It is for the inner parts of the server, which must not depend on a library of metrics; package metrics shows it to Prometheus.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is how many there are. The first has what took less than a microsecond, each further one what took less than twice as long, the
// last one everything from 16 seconds on.
const Buckets = 26

// Histogram counts durations. The zero value is empty. It is safe for concurrent use; to observe costs two atomic additions.
type Histogram struct {
	sum     atomic.Int64
	buckets [Buckets]atomic.Uint64
}

// Since observes the time since start.
func (h *Histogram) Since(start time.Time) { h.Observe(time.Since(start)) }

// Observe counts a duration. To a nil Histogram it does nothing.
func (h *Histogram) Observe(d time.Duration) {
	if h == nil {
		return
	}
	d = max(d, 0)
	h.sum.Add(int64(d))
	h.buckets[min(bits.Len64(uint64(d/time.Microsecond)), Buckets-1)].Add(1)
}

// Counts is what was observed.
type Counts struct {
	Count   uint64
	Sum     time.Duration
	Buckets [Buckets]uint64
}

// Read returns what was observed so far.
func (h *Histogram) Read() (c Counts) {
	c.Sum = time.Duration(h.sum.Load())
	for i := range h.buckets {
		c.Buckets[i] = h.buckets[i].Load()
		c.Count += c.Buckets[i]
	}
	return c
}

// Bound is what a duration in a bucket is less than; of the last bucket there is none.
func Bound(bucket int) time.Duration { return time.Microsecond << bucket }
