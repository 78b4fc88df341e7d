package manager

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"kelson.dev/operator/controller"
)

// queueCollector measures the work in progress on collection.
type queueCollector struct {
	unfinished, longest, workers *prometheus.Desc

	mu          sync.Mutex
	controllers []*controller.Controller
}

func newQueueCollector() *queueCollector {
	labels := []string{"name", "controller"}
	return &queueCollector{
		unfinished: prometheus.NewDesc("workqueue_unfinished_work_seconds",
			"Sum of the durations of the work in progress.", labels, nil),
		longest: prometheus.NewDesc("workqueue_longest_running_processor_seconds",
			"Duration of the longest work in progress.", labels, nil),
		workers: prometheus.NewDesc("controller_runtime_max_concurrent_reconciles", "Workers of the controller.",
			[]string{"controller"}, nil),
	}
}

func (q *queueCollector) add(c *controller.Controller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.controllers = append(q.controllers, c)
}

func (q *queueCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- q.unfinished
	descs <- q.longest
	descs <- q.workers
}

func (q *queueCollector) Collect(out chan<- prometheus.Metric) {
	q.mu.Lock()
	controllers := q.controllers
	q.mu.Unlock()
	for _, c := range controllers {
		s := c.Queue().Stats()
		name := c.Name()
		out <- prometheus.MustNewConstMetric(q.unfinished, prometheus.GaugeValue, s.Unfinished.Seconds(), name, name)
		out <- prometheus.MustNewConstMetric(q.longest, prometheus.GaugeValue, s.Longest.Seconds(), name, name)
		out <- prometheus.MustNewConstMetric(q.workers, prometheus.GaugeValue, float64(c.Concurrency()), name)
	}
}
