package filters

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// healthSeries counts the results of health checks. kube-apiserver has the same metrics at
// /metrics/slis, apart from all others, so that monitoring can read them often.
type healthSeries struct {
	last  *prometheus.GaugeVec
	total *prometheus.CounterVec
	begun time.Time
}

func newHealthSeries() healthSeries {
	return healthSeries{
		begun: time.Now(),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck.",
		}, []string{"name", "status", "type"}),
	}
}

// add counts the result of a check of an endpoint: healthz, livez or readyz.
func (o healthSeries) add(endpoint, check string, err error) {
	value, status := 1.0, "success"
	if err != nil {
		value, status = 0, "error"
	}
	o.last.WithLabelValues(check, endpoint).Set(value)
	o.total.WithLabelValues(check, status, endpoint).Inc()
}

// handler returns the handler of /metrics/slis.
func (o healthSeries) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.last, o.total)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ProcessStartTime: o.begun})
}
