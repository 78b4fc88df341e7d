package manager

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kelson.dev/operator/controller"
)

// metrics are the metrics of one manager. They have the names that common dashboards expect.
type metrics struct {
	registry *prometheus.Registry

	reconciles, errors, terminal, panics *prometheus.CounterVec
	took                                 *prometheus.HistogramVec
	active                               *prometheus.GaugeVec
	loops, requests, conflicts           *prometheus.CounterVec
	leading                              *prometheus.GaugeVec

	hookTook     *prometheus.HistogramVec
	hookRequests *prometheus.CounterVec
	hookInFlight *prometheus.GaugeVec
	hookPanics   *prometheus.CounterVec
	convPanics   prometheus.Counter

	depth           *prometheus.GaugeVec
	adds, retries   *prometheus.CounterVec
	waited, worked  *prometheus.HistogramVec
	queueCollection *queueCollector
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), queueCollection: newQueueCollector()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.reconciles = counter("controller_runtime_reconcile_total", "Reconciles per controller and result.", "controller", "result")
	m.errors = counter("controller_runtime_reconcile_errors_total", "Reconciles that returned an error.", "controller")
	m.terminal = counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that returned an error that is not retried.", "controller")
	m.panics = counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", "controller")
	m.took = histogram("controller_runtime_reconcile_time_seconds", "Time of a reconcile.",
		[]float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}, "controller")
	m.active = gauge("controller_runtime_active_workers", "Workers that are reconciling.", "controller")

	m.loops = counter("kelson_hot_loops_total", "Hot loops found, each counted at most once a minute.", "controller")
	m.conflicts = counter("kelson_persistent_conflicts_total", "Reconciles that hit a conflict for at least the tenth time in a row for their object.", "controller")
	m.requests = counter("rest_client_requests_total", "Requests to the API server.", "code", "method", "host")
	m.leading = gauge("leader_election_master_status", "1 while this replica leads.", "name")
	m.hookTook = histogram("controller_runtime_webhook_latency_seconds", "Time of a webhook's response.", prometheus.DefBuckets, "webhook")
	m.hookRequests = counter("controller_runtime_webhook_requests_total", "Requests to webhooks by HTTP status code.", "webhook", "code")
	m.hookInFlight = gauge("controller_runtime_webhook_requests_in_flight", "Requests that webhooks are processing.", "webhook")
	m.hookPanics = counter("controller_runtime_webhook_panics_total", "Panics of admission webhooks.")
	m.convPanics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "controller_runtime_conversion_webhook_panics_total", Help: "Panics of conversions.",
	})
	m.registry.MustRegister(m.convPanics)
	m.hookPanics.WithLabelValues()

	seconds := prometheus.ExponentialBuckets(1e-6, 10, 10)
	m.depth = gauge("workqueue_depth", "Objects waiting to be reconciled.", "name", "controller")
	m.adds = counter("workqueue_adds_total", "Objects that were queued.", "name", "controller")
	m.retries = counter("workqueue_retries_total", "Objects that were queued again with backoff.", "name", "controller")
	m.waited = histogram("workqueue_queue_duration_seconds", "Time that objects waited in the queue.", seconds, "name", "controller")
	m.worked = histogram("workqueue_work_duration_seconds", "Time that a worker held an object.", seconds, "name", "controller")
	m.registry.MustRegister(m.queueCollection, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// forget deletes the request metrics of a host.
func (m *metrics) forget(host string) { m.requests.DeletePartialMatch(prometheus.Labels{"host": host}) }

// controller returns the controller.Metrics of one controller.
func (m *metrics) controller(name string) controller.Metrics {
	return &controllerMetrics{
		m: m, name: name, active: m.active.WithLabelValues(name), took: m.took.WithLabelValues(name),
		errors: m.errors.WithLabelValues(name), terminal: m.terminal.WithLabelValues(name), panics: m.panics.WithLabelValues(name),
		conflicts: m.conflicts.WithLabelValues(name),
	}
}

type controllerMetrics struct {
	m                        *metrics
	name                     string
	active                   prometheus.Gauge
	took                     prometheus.Observer
	errors, terminal, panics prometheus.Counter
	conflicts                prometheus.Counter
}

func (c *controllerMetrics) Started()  { c.active.Inc() }
func (c *controllerMetrics) Freed()    { c.active.Dec() }
func (c *controllerMetrics) Panicked() { c.panics.Inc() }

func (c *controllerMetrics) PersistentConflict() { c.conflicts.Inc() }

func (c *controllerMetrics) Ended(outcome string, took time.Duration) {
	c.took.Observe(took.Seconds())
	switch outcome {
	case "terminal":
		c.terminal.Inc()
		c.errors.Inc()
		outcome = "error"
	case "error":
		c.errors.Inc()
	}
	c.m.reconciles.WithLabelValues(c.name, outcome).Inc()
}

// queue returns the workqueue.Metrics of one queue.
func (m *metrics) queue(name string) *queueMetrics {
	return &queueMetrics{
		depth: m.depth.WithLabelValues(name, name), adds: m.adds.WithLabelValues(name, name),
		retries: m.retries.WithLabelValues(name, name), waited: m.waited.WithLabelValues(name, name),
		worked: m.worked.WithLabelValues(name, name),
	}
}

type queueMetrics struct {
	depth          prometheus.Gauge
	adds, retries  prometheus.Counter
	waited, worked prometheus.Observer
}

func (q *queueMetrics) Depth(n int)              { q.depth.Set(float64(n)) }
func (q *queueMetrics) Added()                   { q.adds.Inc() }
func (q *queueMetrics) Got(d time.Duration)      { q.waited.Observe(d.Seconds()) }
func (q *queueMetrics) Finished(d time.Duration) { q.worked.Observe(d.Seconds()) }
func (q *queueMetrics) Retried()                 { q.retries.Inc() }

// watch adds a controller to the metrics that are read from its queue on collection.
func (m *metrics) watch(c *controller.Controller) { m.queueCollection.add(c) }
