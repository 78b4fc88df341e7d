package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"kelson.dev/apiserver/store"
)

// storeMetrics collects the statistics of a store.
type storeMetrics struct{ store *store.Store }

// descriptions describe the metrics of a store.
type descriptions struct {
	commits, writes, waiting, appending, publishing, queue, checkpoints, checkpointing, objects, resources,
	storageObjects, events, bytes, pins *prometheus.Desc

	requests, logged, syncs *prometheus.Desc

	live, budget, used, share, evictions *prometheus.Desc
}

var storeDescriptions = sync.OnceValue(func() (d descriptions) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	d.commits = desc("kelson_store_commits_total", "Committed units of writes, each of one or more objects.")
	d.writes = desc("kelson_store_batch_writes", "Objects written per batch, which is made durable as a whole.")
	d.waiting = desc("kelson_store_commit_duration_seconds",
		"Time from the commit of a unit until it is durable and visible to readers.")
	d.appending = desc("kelson_store_append_duration_seconds", "Time to make a batch durable.")
	d.publishing = desc("kelson_store_publish_duration_seconds",
		"Time to publish a batch to readers and to wake watches.")
	d.queue = desc("kelson_store_queue_length", "Units waiting for the next batch.")
	d.checkpoints = desc("kelson_store_checkpoints_total", "Number of completed checkpoints of the whole state.")
	d.checkpointing = desc("kelson_store_checkpoint_duration_seconds",
		"Time to write a checkpoint of the whole state, concurrently with other writes.")
	d.objects = desc("kelson_store_objects", "Number of stored objects.")
	d.resources = desc("apiserver_resource_objects", "Number of stored objects, by group and resource.", "group",
		"resource")
	d.storageObjects = desc("apiserver_storage_objects", "Number of stored objects, by resource.", "resource")
	d.events = desc("kelson_store_watch_log_events", "Events retained for watches.")
	d.bytes = desc("kelson_store_watch_log_bytes",
		"Memory of the events retained for watches and of the objects that only they have.")
	d.pins = desc("kelson_store_pinned_snapshots", "Snapshots retained for paged lists.")
	d.requests = desc("etcd_request_duration_seconds", "Duration of requests to etcd, by operation.", "operation")
	d.logged = desc("kelson_disk_log_bytes", "Size of the logs since the last checkpoint.")
	d.live = desc("kelson_memory_live_bytes", "Estimated memory of the stored objects.")
	d.budget = desc("kelson_memory_budget_limit_bytes",
		"Limit for the memory of everything that can be computed or listed again.")
	d.used = desc("kelson_memory_budget_bytes", "Memory that a part of the budget uses.", "part")
	d.share = desc("kelson_memory_budget_part_limit_bytes",
		"Memory that a part of the budget may use at the moment: at least half of the budget for memos, and half for watch logs and pages of lists together.", "part")
	d.evictions = desc("kelson_memory_budget_evictions_total",
		"Events, snapshots for pages of lists, and objects with memos that were evicted because of the budget, by part.", "part")
	d.syncs = desc("kelson_disk_sync_duration_seconds", "Duration of syncs of the log to disk.")
	return d
})

// Describe implements prometheus.Collector.
func (m storeMetrics) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, out) }

// Collect implements prometheus.Collector.
func (m storeMetrics) Collect(out chan<- prometheus.Metric) {
	d, stats := storeDescriptions(), m.store.Stats()
	counter := func(desc *prometheus.Desc, n uint64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
	gauge := func(desc *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	counter(d.commits, stats.Commits)
	out <- prometheus.MustNewConstSummary(d.writes, stats.Batches, float64(stats.Writes), nil)
	out <- Histogram(d.waiting, stats.Waiting)
	out <- Histogram(d.appending, stats.Appending)
	out <- Histogram(d.publishing, stats.Publishing)
	gauge(d.queue, stats.Queue)
	counter(d.checkpoints, stats.Checkpoints.Count)
	out <- Histogram(d.checkpointing, stats.Checkpoints)
	gauge(d.objects, stats.Objects)
	gauge(d.events, stats.LogEvents)
	gauge(d.bytes, stats.LogBytes)
	gauge(d.pins, stats.Pins)
	b := stats.Budget
	gauge(d.live, int(b.Live))
	gauge(d.budget, int(b.Limit))
	for _, part := range b.Parts {
		gauge(d.used, int(part.Bytes), part.Name)
		gauge(d.share, int(part.Limit), part.Name)
		out <- prometheus.MustNewConstMetric(d.evictions, prometheus.CounterValue, float64(part.Evicted), part.Name)
	}
	sn := m.store.Snapshot()
	for resource := range sn.Resources() {
		name, group, _ := strings.Cut(resource, ".")
		gauge(d.resources, sn.Count(resource, ""), group, name)
		gauge(d.storageObjects, sn.Count(resource, ""), resource)
	}
	for operation, took := range stats.Requests {
		out <- Histogram(d.requests, took, operation)
	}
	if stats.Disk != nil {
		gauge(d.logged, int(stats.Disk.LogBytes))
		out <- Histogram(d.syncs, stats.Disk.Syncs)
	}
}
