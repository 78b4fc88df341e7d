package manager

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"kelson.dev/internal/require"
)

// depths returns the depths of a queue by the label priority.
func depths(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "workqueue_depth" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "priority" {
					all[label.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	return all
}

// A queue with many priorities has a bounded number of series, whose sum is its depth.
func TestDepthOfManyPriorities(t *testing.T) {
	m := newMetrics()
	q := m.queue("test")
	for priority := range 30 { // priority 0 has a series from the start
		q.Depth(priority, 1)
		q.Depth(priority, 2)
	}
	if all := depths(t, m.registry); len(all) != maxPriorities+1 || all["7"] != 2 || all[otherPriorities] != 10 {
		t.Errorf("got %v", all)
	}
	for priority := range 30 {
		q.Depth(priority, 0)
	}
	if all := depths(t, m.registry); all["7"] != 0 || all[otherPriorities] != 0 || len(q.ready) != 0 {
		t.Errorf("after the last key: %v, %v", all, q.ready)
	}
}

// Metrics that controller-runtime has too have its labels and buckets, so that dashboards work.
func TestBuckets(t *testing.T) {
	m := newMetrics()
	m.controller("test")
	q := m.queue("test")
	q.Got(0)
	q.Finished(0)
	m.hookTook.WithLabelValues("/x")
	families, err := m.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		name := f.GetName()
		n, first, last := 12, 1e-8, 1000.0
		switch {
		case f.GetMetric()[0].GetHistogram() == nil:
			continue
		case strings.HasPrefix(name, "controller_runtime_reconcile"):
			n, first, last = 40, 0.005, 60
		}
		buckets := f.GetMetric()[0].GetHistogram().GetBucket()
		if len(buckets) != n || buckets[0].GetUpperBound() != first ||
			last/buckets[len(buckets)-1].GetUpperBound() > 1.0001 {
			t.Errorf("%s has %d buckets from %v to %v", name, len(buckets), buckets[0].GetUpperBound(),
				buckets[len(buckets)-1].GetUpperBound())
		}
	}
}
