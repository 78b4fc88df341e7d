// Package metrics exports the metrics of a control plane, except those that the request filters
// count: metrics of the process, the store, the stages of a write, and watch traffic.
//
//	registry := metrics.New(store)
//	verbs := metrics.NewVerbs(registry) // package rest counts with it
//
// A metric has kube-apiserver's name if kube-apiserver has the same metric, and otherwise a name
// that begins with kelson_. docs/reference/metrics.md lists them. Each control plane has its own
// registry, which computes values only when it is gathered.
package metrics

import (
	"regexp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/store"
)

// processCollectors describe the process. All control planes in a process share them.
var processCollectors = sync.OnceValue(func() []prometheus.Collector {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	return []prometheus.Collector{collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
})

// New returns a registry with the metrics of the process and of a store.
func New(st *store.Store) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(processCollectors()...)
	registry.MustRegister(storeMetrics{st}, upstream{})
	return registry
}

// Histogram returns a metric of durations, without the empty buckets below and above all others.
func Histogram(desc *prometheus.Desc, c histogram.Counts, labels ...string) prometheus.Metric {
	buckets := map[float64]uint64{}
	below := uint64(0)
	for i, n := range c.Buckets[:c.Bounded()] {
		if below += n; below > 0 {
			buckets[c.Bound(i).Seconds()] = below
		}
		if below == c.Count && below > 0 {
			break
		}
	}
	return prometheus.MustNewConstHistogram(desc, c.Count, c.Sum.Seconds(), buckets, labels...)
}
