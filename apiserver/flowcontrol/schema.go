package flowcontrol

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// schema is a FlowSchema whose priority level exists, with that level.
type schema struct {
	fs            *flowcontrolv1.FlowSchema
	level         *level
	uid, levelUID []string // values of response headers
	*counts
}

// flow distinguishes the flows of a FlowSchema: requests of one flow share a queue.
func (s *schema) flow(info *request.RequestInfo, u user.Info) string {
	if s.fs.Spec.DistinguisherMethod == nil {
		return ""
	}
	switch s.fs.Spec.DistinguisherMethod.Type {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return u.GetName()
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return info.Namespace
	}
	return ""
}

// hash returns the hash value that determines a flow's queues in shuffle sharding.
func (s *schema) hash(flow string) uint64 {
	sum := sha256.Sum256([]byte(s.fs.Name + "\x00" + flow))
	return binary.LittleEndian.Uint64(sum[:8])
}

// counts holds the metrics of a FlowSchema at its priority level. They remain when the
// configuration changes.
type counts struct {
	dispatched                           atomic.Uint64
	full, limited, timedOut              atomic.Uint64 // rejected
	executing, executingSeats            atomic.Int64
	queued, queuedSeats                  atomic.Int64
	waitedAndExecuted, waitedAndRejected durations
	// Watches execute until they have sent their initial events.
	executed, watched durations
}

func (c *counts) rejected(reason string) {
	switch reason {
	case queueFull:
		c.full.Add(1)
	case concurrencyLimit:
		c.limited.Add(1)
	case timeOut:
		c.timedOut.Add(1)
	}
}

func (c *counts) waited(d time.Duration, executes bool) {
	if executes {
		c.waitedAndExecuted.observe(d)
	} else {
		c.waitedAndRejected.observe(d)
	}
}

// durationBuckets are the upper bounds, in seconds, of Kubernetes' histograms of waiting and
// execution times.
var durationBuckets = [...]float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}

// durations is a histogram of the times that requests waited in queues or executed.
type durations struct {
	sum     atomic.Int64 // nanoseconds
	buckets [len(durationBuckets) + 1]atomic.Uint64
}

func (w *durations) observe(d time.Duration) {
	w.sum.Add(int64(d))
	i := 0
	for i < len(durationBuckets) && d.Seconds() > durationBuckets[i] {
		i++
	}
	w.buckets[i].Add(1)
}

// read returns the count, the sum in seconds and the cumulative buckets. It adds the given number
// of observations of zero.
func (w *durations) read(zeros uint64) (count uint64, sum float64, cumulative map[float64]uint64) {
	count, cumulative = zeros, make(map[float64]uint64, len(durationBuckets))
	for i, bound := range durationBuckets {
		count += w.buckets[i].Load()
		cumulative[bound] = count
	}
	return count + w.buckets[len(durationBuckets)].Load(), time.Duration(w.sum.Load()).Seconds(), cumulative
}
