package flowcontrol

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// The metrics have the names and labels of Kubernetes'. Labels are only names of FlowSchemas and
// priority levels.
var (
	flowLabels  = []string{"priority_level", "flow_schema"}
	levelLabels = flowLabels[:1]

	dispatchedDesc = describe("dispatched_requests_total",
		"Number of requests executed by API Priority and Fairness subsystem", flowLabels...)
	rejectedDesc = describe("rejected_requests_total",
		"Number of requests rejected by API Priority and Fairness subsystem", "priority_level", "flow_schema", "reason")
	executingDesc = describe("current_executing_requests",
		"Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem", flowLabels...)
	executingSeatsDesc = describe("current_executing_seats",
		"Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem", flowLabels...)
	queuedDesc = describe("current_inqueue_requests",
		"Number of requests currently pending in queues of the API Priority and Fairness subsystem", flowLabels...)
	queuedSeatsDesc = describe("current_inqueue_seats",
		"Number of seats currently pending in queues of the API Priority and Fairness subsystem", flowLabels...)
	waitDesc = describe("request_wait_duration_seconds",
		"Length of time a request spent waiting in its queue", "priority_level", "flow_schema", "execute")
	executionDesc = describe("request_execution_seconds",
		"Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem", "priority_level", "flow_schema", "type")
	nominalDesc = describe("nominal_limit_seats",
		"Nominal number of execution seats configured for each priority level", levelLabels...)
	lowerDesc = describe("lower_limit_seats",
		"Configured lower bound on number of execution seats available to each priority level", levelLabels...)
	upperDesc = describe("upper_limit_seats",
		"Configured upper bound on number of execution seats available to each priority level", levelLabels...)
	currentDesc = describe("current_limit_seats",
		"current derived number of execution seats available to each priority level", levelLabels...)
	highestDesc = describe("demand_seats_high_watermark",
		"High watermark, over last adjustment period, of demand_seats", levelLabels...)
	averageDesc = describe("demand_seats_average",
		"Time-weighted average, over last adjustment period, of demand_seats", levelLabels...)
	deviationDesc = describe("demand_seats_stdev",
		"Time-weighted standard deviation, over last adjustment period, of demand_seats", levelLabels...)
	smoothedDesc = describe("demand_seats_smoothed", "Smoothed seat demands", levelLabels...)
	requestsDesc = describe("priority_level_request_utilization",
		"Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)", "phase", "priority_level")
	seatsDesc = describe("priority_level_seat_utilization",
		"Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)", "phase", "priority_level")
	demandsDesc = describe("demand_seats",
		"Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (nominal number of seats for that level)", levelLabels...)
	kindsDesc = describe("read_vs_write_current_requests",
		"Observations, at the end of every nanosecond, of the number of requests (as a fraction of the relevant limit) waiting or in regular stage of execution", "phase", "request_kind")
)

// The values of the label phase.
const (
	executing = "executing"
	waiting   = "waiting"
)

// byKind has the distributions of requests that read and of requests that write.
type byKind [2]struct{ executing, waiting *ratio }

func newByKind() (k byKind) {
	for i := range k {
		k[i].executing, k[i].waiting = newRatio(kindEdges), newRatio(kindEdges)
	}
	return k
}

func kindOf(info *request.RequestInfo) int {
	switch info.Verb {
	case "get", "list", "watch":
		return 0
	}
	return 1
}

func (k *byKind) executing(info *request.RequestInfo) *ratio { return k[kindOf(info)].executing }
func (k *byKind) waiting(info *request.RequestInfo) *ratio   { return k[kindOf(info)].waiting }

// limit sets the numbers of requests that can execute and wait.
func (k *byKind) limit(requests, capacity int) {
	now := time.Now()
	for i := range k {
		k[i].executing.limit(requests, now)
		k[i].waiting.limit(capacity, now)
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("apiserver_flowcontrol_"+name, help, labels, nil)
}

// Describe implements [prometheus.Collector]. It does not describe the metrics, because they depend
// on the configuration.
func (c *Controller) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c *Controller) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range c.counted {
		labels := []string{strings.Clone(key.level), strings.Clone(key.schema)}
		n.collect(to, labels)
	}
	now := c.current.Load()
	if now == nil {
		return
	}
	for i, kind := range []string{"readOnly", "mutating"} {
		to <- c.kinds[i].executing.metric(kindsDesc, executing, kind)
		to <- c.kinds[i].waiting.metric(kindsDesc, waiting, kind)
	}
	for name, l := range now.levels {
		to <- l.runs.metric(requestsDesc, executing, name)
		to <- l.waits.metric(requestsDesc, waiting, name)
		to <- l.seats.metric(seatsDesc, executing, name)
		to <- l.demands.metric(demandsDesc, name)
		gauge := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name)
		}
		gauge(nominalDesc, float64(l.bounds.nominal))
		gauge(lowerDesc, float64(l.bounds.min))
		gauge(upperDesc, float64(l.bounds.max))
		gauge(currentDesc, float64(l.limit))
		gauge(highestDesc, float64(l.smoothed.highest))
		gauge(averageDesc, l.smoothed.average)
		gauge(deviationDesc, l.smoothed.deviation)
		gauge(smoothedDesc, l.smoothed.smoothed)
	}
}

func (c *counts) collect(to chan<- prometheus.Metric, labels []string) {
	gauge := func(desc *prometheus.Desc, value int64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	dispatched := c.dispatched.Load()
	to <- prometheus.MustNewConstMetric(dispatchedDesc, prometheus.CounterValue, float64(dispatched), labels...)
	for reason, count := range map[string]uint64{queueFull: c.full.Load(), concurrencyLimit: c.limited.Load(),
		timeOut: c.timedOut.Load()} {
		if count > 0 {
			to <- prometheus.MustNewConstMetric(rejectedDesc, prometheus.CounterValue, float64(count),
				append(labels[:2:2], reason)...)
		}
	}
	gauge(executingDesc, c.executing.Load())
	gauge(executingSeatsDesc, c.executingSeats.Load())
	gauge(queuedDesc, c.queued.Load())
	gauge(queuedSeatsDesc, c.queuedSeats.Load())
	histogram := func(desc *prometheus.Desc, d *durations, zeros uint64, label string) {
		if count, sum, buckets := d.read(zeros); count > 0 {
			to <- prometheus.MustNewConstHistogram(desc, count, sum, buckets, append(labels[:2:2], label)...)
		}
	}
	histogram(executionDesc, &c.executed, 0, "regular")
	histogram(executionDesc, &c.watched, 0, "watch")
	if labels[0] == exemptName {
		return
	}
	// Count requests that did not go through a queue with a wait of zero.
	queued, _, _ := c.waitedAndExecuted.read(0)
	histogram(waitDesc, &c.waitedAndExecuted, dispatched-min(queued, dispatched), "true")
	histogram(waitDesc, &c.waitedAndRejected, 0, "false")
}
