// Package metrics is what a control plane shows at /metrics beside what its pipeline counts itself: the process, the store and the
// stages of a write, and what watches send.
//
//	registry := metrics.New(store)
//	verbs := metrics.NewVerbs(registry) // for package rest, which counts there
//
// Names are kube-apiserver's where it has the same thing, and begin with kelson_ where not; docs/reference/metrics.md lists them all. There is
// no registry but the one that is made, and nothing is computed before somebody looks.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/store"
)

// processCollectors describe the process: they are the same for all control planes in it.
var processCollectors = sync.OnceValue(func() []prometheus.Collector {
	return []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
})

// New returns a registry that shows the process and a store.
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
