package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// upstream collects the metrics that Kubernetes' own packages register globally. They are per
// process: several control planes in one process report the same values.
type upstream struct{}

// upstreamPrefixes selects the metrics to export: expression evaluation, manifests of admission,
// token validation, lost audit events, and the scheduler.
var upstreamPrefixes = []string{
	"apiserver_validating_admission_policy_",
	"apiserver_mutating_admission_policy_",
	"apiserver_admission_match_condition_",
	"apiserver_authorization_match_condition_",
	"apiserver_cel_",
	"apiserver_manifest_admission_config_controller_",
	"serviceaccount_",
	"apiserver_audit_error_total",
	"scheduler_",
}

// Describe sends nothing, which makes the collector unchecked: its metrics exist only once
// Kubernetes has counted something.
func (upstream) Describe(chan<- *prometheus.Desc) {}

func (upstream) Collect(to chan<- prometheus.Metric) {
	// export the families that could be gathered
	families, _ := legacyregistry.DefaultGatherer.Gather()
	for _, f := range families {
		for _, prefix := range upstreamPrefixes {
			if strings.HasPrefix(f.GetName(), prefix) {
				for _, m := range f.GetMetric() {
					to <- gathered{f, m}
				}
			}
		}
	}
}

// gathered is a metric from another registry.
type gathered struct {
	family *dto.MetricFamily
	metric *dto.Metric
}

func (g gathered) Desc() *prometheus.Desc {
	labels := make([]string, len(g.metric.GetLabel()))
	for i, l := range g.metric.GetLabel() {
		labels[i] = l.GetName()
	}
	return prometheus.NewDesc(g.family.GetName(), g.family.GetHelp(), labels, nil)
}

func (g gathered) Write(to *dto.Metric) error {
	to.Label, to.Counter, to.Gauge, to.Histogram, to.Summary = g.metric.Label, g.metric.Counter, g.metric.Gauge,
		g.metric.Histogram, g.metric.Summary
	return nil
}
