package flowcontrol

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
)

// ratio is a number that changes over time, relative to a limit, and the distribution of its
// values. Each value is weighted by the nanoseconds during which it applies, as in Kubernetes.
type ratio struct {
	edges []float64 // upper bounds of the buckets

	mu                  sync.Mutex
	number, denominator float64
	bucket              int               // of the current value
	since               time.Time         // when the current value began to apply
	lasted              [17]time.Duration // by bucket
	sum                 float64           // of values × nanoseconds
}

// The bounds of the buckets of Kubernetes' histograms.
var (
	requestEdges = []float64{0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1}
	seatEdges    = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}
	demandEdges  = []float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6}
	kindEdges    = []float64{0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}
)

func newRatio(edges []float64) *ratio {
	return &ratio{edges: edges, denominator: 1, since: time.Now()}
}

// settle adds the current value to the distribution, for the time until now. The caller holds mu.
func (r *ratio) settle(now time.Time) {
	lasted := max(now.Sub(r.since), 0)
	r.lasted[r.bucket] += lasted
	r.sum += r.number / r.denominator * float64(lasted)
	r.since = now
}

// change sets the number and the limit. The caller holds mu.
func (r *ratio) change(number, denominator float64, now time.Time) {
	if number == r.number && denominator == r.denominator {
		return
	}
	r.settle(now)
	r.number, r.denominator = number, denominator
	r.bucket, _ = slices.BinarySearch(r.edges, number/denominator)
}

func (r *ratio) add(delta int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(r.number+float64(delta), r.denominator, now)
}

func (r *ratio) set(number int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(float64(number), r.denominator, now)
}

// limit sets the limit, at least 1.
func (r *ratio) limit(limit int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(r.number, float64(max(limit, 1)), now)
}

// metric returns the distribution until now.
func (r *ratio) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(time.Now())
	buckets, total := make(map[float64]uint64, len(r.edges)), uint64(0)
	for i, edge := range r.edges {
		total += uint64(r.lasted[i])
		buckets[edge] = total
	}
	return prometheus.MustNewConstHistogram(desc, total+uint64(r.lasted[len(r.edges)]), r.sum, buckets, labels...)
}

// queueGauge is the gauge of a queue set for a ratio that also counts requests outside of the queue
// set. k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset (v0.37) calls two methods of its
// ratioed gauges:
//
//   - Add, with 1 or -1 request, or the seats of a request, when a request is queued, dispatched,
//     cancelled or finished
//   - SetDenominator, when its configuration changes, with its own limits. They are not the limits
//     of the ratio: requests outside of the queue set use seats too. [level.measureBy] sets those.
//
// It does not call the other methods: Set and SetToCurrentTime would need the queue set's share of
// the number, which the ratio does not have. TestQueueSetCallsOfGauges fails if a new version of
// the library calls them.
type queueGauge struct{ *ratio }

var _ metrics.RatioedGauge = queueGauge{}

func (g queueGauge) Add(delta float64)      { g.ratio.add(int(delta), time.Now()) }
func (g queueGauge) Inc()                   { g.Add(1) }
func (g queueGauge) Dec()                   { g.Add(-1) }
func (g queueGauge) SetDenominator(float64) {}
func (g queueGauge) Set(float64)            {}
func (g queueGauge) SetToCurrentTime()      {}
