package podsecurity

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
)

// counts are upstream's metrics of this plugin, with the same names. Upstream's own are global to
// the process.
type counts struct {
	evaluations, exemptions, errors *prometheus.CounterVec
}

var _ metrics.Recorder = counts{}

// newCounts creates and registers the metrics; r may be nil.
func newCounts(r prometheus.Registerer) counts {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pod_security_" + name, Help: help}, labels)
	}
	c := counts{
		evaluations: counter("evaluations_total", "Evaluations of pods by a standard, without those that are exempt.",
			"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"),
		exemptions: counter("exemptions_total", "Requests that are exempt.", "request_operation", "resource",
			"subresource"),
		errors: counter("errors_total", "Errors that kept a pod from being evaluated.", "fatal",
			"request_operation", "resource", "subresource"),
	}
	if r != nil {
		r.MustRegister(c.evaluations, c.exemptions, c.errors)
	}
	return c
}

func (c counts) RecordEvaluation(decision metrics.Decision, by api.LevelVersion, mode metrics.Mode, a api.Attributes) {
	version, current := "future", api.GetAPIVersion()
	switch {
	case by.Version.Latest(), by.Level == api.LevelPrivileged:
		version = "latest"
	case !current.Older(by.Version):
		version = by.Version.String()
	}
	c.evaluations.WithLabelValues(append([]string{string(decision), string(by.Level), version, string(mode)},
		request(a)...)...).Inc()
}

func (c counts) RecordExemption(a api.Attributes) { c.exemptions.WithLabelValues(request(a)...).Inc() }

func (c counts) RecordError(fatal bool, a api.Attributes) {
	c.errors.WithLabelValues(append([]string{strconv.FormatBool(fatal)}, request(a)...)...).Inc()
}

// request returns the labels of a request: operation, resource and subresource.
func request(a api.Attributes) []string {
	resource := "controller" // workloads that create pods
	switch a.GetResource().GroupResource() {
	case schema.GroupResource{Resource: "pods"}:
		resource = "pod"
	case schema.GroupResource{Resource: "namespaces"}:
		resource = "namespace"
	}
	return []string{strings.ToLower(string(a.GetOperation())), resource, a.GetSubresource()}
}
