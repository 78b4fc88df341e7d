package controlplane

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kelson.dev/server/store"
)

// processCollectors describe the process: they are the same for all control planes in it.
var processCollectors = sync.OnceValue(func() []prometheus.Collector {
	return []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
})

func newMetrics(st *store.Store) *prometheus.Registry {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(processCollectors()...)
	metrics.MustRegister(storeMetrics{st})
	return metrics
}

// storeMetrics shows what a store counts. Nothing is computed before somebody looks.
type storeMetrics struct{ store *store.Store }

// storeDescriptions have Kubernetes' name where it has the same thing.
var storeDescriptions = sync.OnceValue(func() (d struct {
	commits, writes, appending, checkpoints, objects, events, bytes *prometheus.Desc
}) {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	d.commits = desc("kelson_store_commits_total", "Units written, each of one or several objects.")
	d.writes = desc("kelson_store_batch_writes", "Objects written per batch: a batch is made durable at once.")
	d.appending = desc("kelson_store_append_duration_seconds", "Time to make a batch durable, in seconds.")
	d.checkpoints = desc("kelson_store_checkpoints_total", "How often the whole state was written anew.")
	d.objects = desc("kelson_store_objects", "Objects stored.")
	d.events = desc("kelson_store_watch_log_events", "Events kept for watches.")
	d.bytes = desc("kelson_store_watch_log_bytes", "Size of the objects in the events kept for watches.")
	return d
})

// Describe implements prometheus.Collector.
func (m storeMetrics) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, out) }

// Collect implements prometheus.Collector.
func (m storeMetrics) Collect(out chan<- prometheus.Metric) {
	d, now := storeDescriptions(), m.store.Stats()
	out <- prometheus.MustNewConstMetric(d.commits, prometheus.CounterValue, float64(now.Commits))
	out <- prometheus.MustNewConstSummary(d.writes, now.Batches, float64(now.Writes), nil)
	out <- prometheus.MustNewConstSummary(d.appending, now.Batches, now.Appending.Seconds(), nil)
	out <- prometheus.MustNewConstMetric(d.checkpoints, prometheus.CounterValue, float64(now.Checkpoints))
	out <- prometheus.MustNewConstMetric(d.objects, prometheus.GaugeValue, float64(now.Objects))
	out <- prometheus.MustNewConstMetric(d.events, prometheus.GaugeValue, float64(now.LogEvents))
	out <- prometheus.MustNewConstMetric(d.bytes, prometheus.GaugeValue, float64(now.LogBytes))
}
