package manager

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kelson.dev/operator/controller"
)

// metrics are the metrics of one manager. They have the names that common dashboards expect.
type metrics struct {
	registry *prometheus.Registry

	reconciles, errors, terminal, panics, timeouts *prometheus.CounterVec
	took                                           *prometheus.HistogramVec
	active                                         *prometheus.GaugeVec
	loops, requests, conflicts                     *prometheus.CounterVec
	leading                                        *prometheus.GaugeVec

	hookTook     *prometheus.HistogramVec
	hookRequests *prometheus.CounterVec
	hookInFlight *prometheus.GaugeVec
	hookPanics   *prometheus.CounterVec
	convPanics   prometheus.Counter

	certReads, certErrors prometheus.Counter

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
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.reconciles = counter("controller_runtime_reconcile_total", "Reconciles per controller and result.", "controller",
		"result")
	m.errors = counter("controller_runtime_reconcile_errors_total", "Reconciles that returned an error.", "controller")
	m.terminal = counter("controller_runtime_terminal_reconcile_errors_total",
		"Reconciles that returned an error that is not retried.", "controller")
	m.panics = counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", "controller")
	m.timeouts = counter("controller_runtime_reconcile_timeouts_total",
		"Reconciles that took longer than their timeout.", "controller")
	m.took = histogram("controller_runtime_reconcile_time_seconds", "Time of a reconcile.", []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5,
		1.75, 2, 2.5, 3, 3.5, 4, 4.5,
		5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
	}, "controller")
	m.active = gauge("controller_runtime_active_workers", "Workers that are reconciling.", "controller")

	m.loops = counter("kelson_hot_loops_total", "Hot loops found, each counted at most once a minute.", "controller")
	m.conflicts = counter("kelson_persistent_conflicts_total",
		"Reconciles that hit a conflict for at least the tenth time in a row for their object.", "controller")
	m.requests = counter("rest_client_requests_total", "Requests to the API server.", "code", "method", "host")
	m.leading = gauge("leader_election_master_status", "1 while this replica leads.", "name")
	seconds := prometheus.ExponentialBuckets(1e-8, 10, 12)
	m.hookTook = histogram("controller_runtime_webhook_latency_seconds", "Time of a webhook's response.", seconds,
		"webhook")
	m.hookRequests = counter("controller_runtime_webhook_requests_total", "Requests to webhooks by HTTP status code.",
		"webhook", "code")
	m.hookInFlight = gauge("controller_runtime_webhook_requests_in_flight", "Requests that webhooks are processing.",
		"webhook")
	m.hookPanics = counter("controller_runtime_webhook_panics_total", "Panics of admission webhooks.")
	single := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	m.convPanics = single("controller_runtime_conversion_webhook_panics_total", "Panics of conversions.")
	m.certReads = single("certwatcher_read_certificate_total", "Times that a certificate was read from its files.")
	m.certErrors = single("certwatcher_read_certificate_errors_total", "Times that this failed.")
	m.hookPanics.WithLabelValues()

	m.depth = gauge("workqueue_depth", "Objects waiting to be reconciled.", "name", "controller", "priority")
	m.adds = counter("workqueue_adds_total", "Objects that were queued.", "name", "controller")
	m.retries = counter("workqueue_retries_total", "Objects that were queued with a delay.", "name", "controller")
	m.waited = histogram("workqueue_queue_duration_seconds", "Time that objects waited in the queue.", seconds, "name",
		"controller")
	m.worked = histogram("workqueue_work_duration_seconds", "Time that a worker held an object.", seconds, "name",
		"controller")
	m.registry.MustRegister(m.queueCollection, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// forget deletes the request metrics of a host.
func (m *metrics) forget(host string) { m.requests.DeletePartialMatch(prometheus.Labels{"host": host}) }

// controller returns the controller.Metrics of one controller.
func (m *metrics) controller(name string) controller.Metrics {
	for _, result := range []string{"success", "error", "requeue_after"} {
		m.reconciles.WithLabelValues(name, result)
	}
	return &controllerMetrics{
		m: m, name: name, active: m.active.WithLabelValues(name), took: m.took.WithLabelValues(name),
		errors: m.errors.WithLabelValues(name), terminal: m.terminal.WithLabelValues(name),
		panics:   m.panics.WithLabelValues(name),
		timeouts: m.timeouts.WithLabelValues(name), conflicts: m.conflicts.WithLabelValues(name),
	}
}

type controllerMetrics struct {
	m                        *metrics
	name                     string
	active                   prometheus.Gauge
	took                     prometheus.Observer
	errors, terminal, panics prometheus.Counter
	timeouts, conflicts      prometheus.Counter
}

func (c *controllerMetrics) Started()  { c.active.Inc() }
func (c *controllerMetrics) Freed()    { c.active.Dec() }
func (c *controllerMetrics) Panicked() { c.panics.Inc() }
func (c *controllerMetrics) TimedOut() { c.timeouts.Inc() }

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
	q := &queueMetrics{
		depth:  m.depth.MustCurryWith(prometheus.Labels{"name": name, "controller": name}),
		levels: map[int]prometheus.Gauge{}, ready: map[int]int{},
		adds: m.adds.WithLabelValues(name, name), retries: m.retries.WithLabelValues(name, name),
		waited: m.waited.WithLabelValues(name, name), worked: m.worked.WithLabelValues(name, name),
	}
	q.Depth(0, 0)
	return q
}

// queueMetrics needs no lock, because the queue is locked while it calls the methods.
type queueMetrics struct {
	depth          *prometheus.GaugeVec     // by priority
	levels         map[int]prometheus.Gauge // of the first maxPriorities priorities
	ready          map[int]int              // the last depth of each priority, if it is not 0
	adds, retries  prometheus.Counter
	waited, worked prometheus.Observer
}

// maxPriorities bounds the series of a queue. Further priorities share the series otherPriorities.
// Both are as in controller-runtime.
const (
	maxPriorities   = 25
	otherPriorities = "exceeded_cardinality_limit"
)

func (q *queueMetrics) Depth(priority, n int) {
	level := q.levels[priority]
	switch {
	case level != nil:
	case len(q.levels) < maxPriorities:
		level = q.depth.WithLabelValues(strconv.Itoa(priority))
		q.levels[priority] = level
	default:
		level = q.depth.WithLabelValues(otherPriorities)
	}
	level.Add(float64(n - q.ready[priority]))
	if q.ready[priority] = n; n == 0 {
		delete(q.ready, priority)
	}
}

func (q *queueMetrics) Added()                   { q.adds.Inc() }
func (q *queueMetrics) Got(d time.Duration)      { q.waited.Observe(d.Seconds()) }
func (q *queueMetrics) Finished(d time.Duration) { q.worked.Observe(d.Seconds()) }
func (q *queueMetrics) Retried()                 { q.retries.Inc() }

// watch adds a controller to the metrics that are read from its queue on collection.
func (m *metrics) watch(c *controller.Controller) { m.queueCollection.add(c) }
