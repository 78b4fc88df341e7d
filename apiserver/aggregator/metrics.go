package aggregator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of kube-aggregator.
var (
	unavailableGauge = prometheus.NewDesc("aggregator_unavailable_apiservice",
		"Gauge of APIServices which are marked as unavailable broken down by APIService name.", []string{"name"}, nil)
	unavailableCounter = prometheus.NewDesc("aggregator_unavailable_apiservice_total",
		"Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
		[]string{"name", "reason"}, nil)
)

// unavailableCounts counts how often APIServices became unavailable, by name and reason. The zero
// value is empty.
type unavailableCounts struct {
	mu sync.Mutex
	by map[[2]string]float64
}

func (c *unavailableCounts) add(name, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[[2]string]float64{}
	}
	c.by[[2]string{name, reason}]++
}

// forget removes the counts of a deleted APIService, so that names do not accumulate.
func (c *unavailableCounts) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.by {
		if key[0] == name {
			delete(c.by, key)
		}
	}
}

// Describe implements prometheus.Collector.
func (a *Aggregator) Describe(out chan<- *prometheus.Desc) {
	out <- unavailableGauge
	out <- unavailableCounter
}

// Collect implements prometheus.Collector. Local APIServices are always available and not listed.
func (a *Aggregator) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	for name, b := range a.backends {
		value := 1.0
		if b.available.Load() {
			value = 0
		}
		out <- prometheus.MustNewConstMetric(unavailableGauge, prometheus.GaugeValue, value, name)
	}
	a.mu.Unlock()
	a.counts.mu.Lock()
	defer a.counts.mu.Unlock()
	for key, n := range a.counts.by {
		out <- prometheus.MustNewConstMetric(unavailableCounter, prometheus.CounterValue, n, key[0], key[1])
	}
}
