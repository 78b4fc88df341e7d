package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/internal/histogram"
)

// Verbs counts the work of the verbs. A nil *Verbs counts nothing.
type Verbs struct {
	// Decode has the durations of decoding request bodies.
	Decode histogram.Histogram

	events *prometheus.CounterVec
	sizes  *prometheus.HistogramVec
	steps  [2][4][2]histogram.Histogram // by step type, operation, and whether it was rejected
}

// NewVerbs returns new counts and registers their metrics.
func NewVerbs(registry prometheus.Registerer) *Verbs {
	labels := []string{"group", "version", "resource"}
	v := &Verbs{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_watch_events_total",
			Help: "Number of events sent in watches."}, labels),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_events_sizes", Help: "Size of the events sent in watches, in bytes.",
			Buckets: prometheus.ExponentialBuckets(1024, 2, 8),
		}, labels),
	}
	registry.MustRegister(v.events, v.sizes, verbMetrics{v})
	return v
}

// Watch counts the events of one watch.
type Watch struct {
	events prometheus.Counter
	sizes  prometheus.Observer
}

// Watch returns the counts for watches of a resource.
func (v *Verbs) Watch(r schema.GroupVersionResource) Watch {
	if v == nil {
		return Watch{}
	}
	return Watch{v.events.WithLabelValues(r.Group, r.Version, r.Resource),
		v.sizes.WithLabelValues(r.Group, r.Version, r.Resource)}
}

// Sent counts an event of size bytes.
func (w Watch) Sent(size int) {
	if w.events != nil {
		w.events.Inc()
		w.sizes.Observe(float64(size))
	}
}

// Decoded records the duration of decoding a body.
func (v *Verbs) Decoded(start time.Time) {
	if v != nil {
		v.Decode.Since(start)
	}
}

// Admission returns chain with timing of its steps: all mutating plugins together, and all
// validating ones.
func (v *Verbs) Admission(chain admission.Interface) admission.Interface { return measured{chain, v} }

// measured is an admission chain with timing.
type measured struct {
	admission.Interface
	verbs *Verbs
}

var (
	stepTypes  = [...]string{"admit", "validate"}
	operations = [...]admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}
)

func (m measured) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	chain, ok := m.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	start := time.Now()
	err := chain.Admit(ctx, a, o)
	m.verbs.step(0, a.GetOperation(), err, start)
	return err
}

func (m measured) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	chain, ok := m.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	start := time.Now()
	err := chain.Validate(ctx, a, o)
	m.verbs.step(1, a.GetOperation(), err, start)
	return err
}

func (v *Verbs) step(kind int, op admission.Operation, err error, start time.Time) {
	rejected := 0
	if err != nil {
		rejected = 1
	}
	for i := range operations {
		if operations[i] == op {
			v.steps[kind][i][rejected].Since(start)
		}
	}
}

// verbMetrics collects the counts that are kept without Prometheus.
type verbMetrics struct{ verbs *Verbs }

var (
	decodeDescription = prometheus.NewDesc("kelson_request_decode_duration_seconds",
		"Time to decode a request's body into an object.", nil, nil)
	stepDescription = prometheus.NewDesc("apiserver_admission_step_admission_duration_seconds",
		"Admission sub-step latency in seconds, broken out for each operation and type.",
		[]string{"type", "operation", "rejected"}, nil)
)

// Describe implements prometheus.Collector.
func (m verbMetrics) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, out) }

// Collect implements prometheus.Collector.
func (m verbMetrics) Collect(out chan<- prometheus.Metric) {
	out <- Histogram(decodeDescription, m.verbs.Decode.Read())
	for kind := range m.verbs.steps {
		for op := range m.verbs.steps[kind] {
			for rejected := range m.verbs.steps[kind][op] {
				if c := m.verbs.steps[kind][op][rejected].Read(); c.Count > 0 {
					out <- Histogram(stepDescription, c, stepTypes[kind], string(operations[op]),
						strconv.FormatBool(rejected == 1))
				}
			}
		}
	}
}
