package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// upstream shows what Kubernetes' own code, called as a library, counts by itself. It does so once per process: several control
// planes in one show the same.
type upstream struct{}

// ofUpstream are the beginnings of names that are shown: what evaluates expressions, what checks tokens, and audit events that were lost.
var ofUpstream = []string{
	"apiserver_validating_admission_policy_",
	"apiserver_mutating_admission_policy_",
	"apiserver_admission_match_condition_",
	"apiserver_authorization_match_condition_",
	"apiserver_cel_",
	"serviceaccount_",
	"apiserver_audit_error_total",
}

// Describe tells nothing: which of them are there shows when they are counted.
func (upstream) Describe(chan<- *prometheus.Desc) {}

func (upstream) Collect(to chan<- prometheus.Metric) {
	families, _ := legacyregistry.DefaultGatherer.Gather() // what can't be gathered is left out
	for _, f := range families {
		for _, prefix := range ofUpstream {
			if strings.HasPrefix(f.GetName(), prefix) {
				for _, m := range f.GetMetric() {
					to <- gathered{f, m}
				}
			}
		}
	}
}

// gathered is a metric as it was gathered.
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
	to.Label, to.Counter, to.Gauge, to.Histogram, to.Summary = g.metric.Label, g.metric.Counter, g.metric.Gauge, g.metric.Histogram, g.metric.Summary
	return nil
}
