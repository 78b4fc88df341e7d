package webhook

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics has the metrics of webhooks with kube-apiserver's names. Both plugins share one. A nil
// *Metrics counts nothing.
type Metrics struct {
	duration  *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	rejected  *prometheus.CounterVec
	failsOpen *prometheus.CounterVec
}

// NewMetrics registers the metrics. It returns nil for a nil registerer.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		return nil
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_admission_" + name, Help: help}, labels)
	}
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_webhook_admission_duration_seconds", Help: "How long admission webhooks took.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25},
		}, []string{"name", "type", "operation", "rejected"}),
		requests: counter("webhook_request_total", "Requests to admission webhooks.", "name", "type", "operation",
			"code", "rejected"),
		rejected: counter("webhook_rejection_count", "Requests that admission webhooks refused.", "name", "type",
			"operation", "error_type", "rejection_code"),
		failsOpen: counter("webhook_fail_open_count", "Requests that continued although an admission webhook failed.",
			"name", "type"),
	}
	r.MustRegister(m.duration, m.requests, m.rejected, m.failsOpen)
	return m
}

// code returns the label of a status code. It limits codes to 0–600, so that webhooks cannot create
// an unbounded number of time series.
func code(n int) string {
	n = max(0, min(n, 600))
	return strconv.Itoa(n)
}

func (m *Metrics) called(kind, name, op string, status int, rejected bool, took time.Duration) {
	if m == nil {
		return
	}
	m.duration.WithLabelValues(name, kind, op, strconv.FormatBool(rejected)).Observe(took.Seconds())
	m.requests.WithLabelValues(name, kind, op, code(status), strconv.FormatBool(rejected)).Inc()
}

func (m *Metrics) refused(kind, name, op, why string, status int) {
	if m != nil {
		m.rejected.WithLabelValues(name, kind, op, why, code(status)).Inc()
	}
}

func (m *Metrics) open(kind, name string) {
	if m != nil {
		m.failsOpen.WithLabelValues(name, kind).Inc()
	}
}
