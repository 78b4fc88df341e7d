package chain

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// metrics has the names and labels that kube-apiserver's dashboards know.
type metrics struct {
	long     *prometheus.GaugeVec
	requests *requests

	authentication, authorization outcomes
}

func (c *Chain) newMetrics(registry *prometheus.Registry) *metrics {
	if registry == nil {
		return nil
	}
	m := &metrics{
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		requests:       newRequests(),
		authentication: newOutcomes("authentication_attempts", "authentication_duration_seconds", "authentication", "success", "failure", "error"),
		authorization: newOutcomes("authorization_attempts_total", "authorization_duration_seconds", "authorization",
			"allowed", "denied", "no-opinion", "error"),
	}
	registry.MustRegister(m.long, m.requests, m.authentication, m.authorization, c.reading.gauge("readOnly"), c.mutating.gauge("mutating"))
	return m
}

// gauge shows how many seats are taken.
func (s *seats) gauge(kind string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "apiserver_current_inflight_requests", Help: "Number of requests being served, by kind.",
		ConstLabels: prometheus.Labels{"request_kind": kind},
	}, func() float64 { return float64(s.taken.Load()) })
}

// measured counts requests, and the time of those that are not long-running.
func (c *Chain) measured(next http.Handler) http.Handler {
	if c.metrics == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(w, req)
		c.metrics.observe(req, callOf(req))
	})
}

// lasting counts a long-running request while it lasts. It is called when its caller may make it: what others name must not make a
// time series.
func (m *metrics) lasting(req *http.Request, info *request.RequestInfo) (over func()) {
	gauge := m.long.WithLabelValues(metricVerb(req, info), label(info.APIGroup), label(info.APIVersion), label(info.Resource), label(info.Subresource), scope(info), "apiserver")
	gauge.Inc()
	return gauge.Dec
}

// authenticated and authorized note what was decided, in kube-apiserver's words.
func (m *metrics) authenticated(result string, start time.Time) {
	if m != nil {
		m.authentication.observe(result, start)
	}
}

func (m *metrics) authorized(result string, start time.Time) {
	if m != nil {
		m.authorization.observe(result, start)
	}
}

func (m *metrics) observe(req *http.Request, c *call) {
	info, code := c.info, c.answer.code
	if code == 0 {
		code = http.StatusOK
	}
	s := series{verb: metricVerb(req, info), code: code}
	if strings.Contains(req.URL.RawQuery, "dryRun") {
		s.dryRun = req.URL.Query().Get("dryRun")
		if s.dryRun != "" && s.dryRun != "All" {
			s.dryRun = "invalid"
		}
	}
	// A path that nobody serves, or that the caller may not see, must not make a time series.
	unknown := code == http.StatusNotFound && strings.HasPrefix(c.answer.Header().Get("Content-Type"), "text/plain")
	if info.IsResourceRequest && !unknown && code != http.StatusUnauthorized && code != http.StatusForbidden {
		s.group, s.version, s.resource, s.subresource, s.scope = info.APIGroup, info.APIVersion, info.Resource, info.Subresource, scope(info)
	}
	of := m.requests.of(s, c.lasts)
	of.total.Add(1)
	if of.took != nil {
		took := time.Since(c.received)
		of.took.observe(took)
		of.sli.observe(took - c.elsewhere())
	}
}

func metricVerb(req *http.Request, info *request.RequestInfo) string {
	switch info.Verb {
	case "list", "watch", "deletecollection":
		return strings.ToUpper(info.Verb)
	}
	switch info.Subresource {
	case "attach", "exec", "portforward", "proxy", "log":
		return "CONNECT"
	}
	switch req.Method {
	case http.MethodPatch:
		if strings.HasPrefix(req.Header.Get("Content-Type"), "application/apply-patch") {
			return "APPLY"
		}
		return req.Method
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete:
		return req.Method
	}
	return "other"
}

func scope(info *request.RequestInfo) string {
	switch {
	case info.Name != "" || info.Verb == "create":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	}
	return "cluster"
}
