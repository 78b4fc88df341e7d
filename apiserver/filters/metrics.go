package filters

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
)

// metrics holds the request metrics, with the names and labels of kube-apiserver's.
type metrics struct {
	long     *prometheus.GaugeVec
	requests *requests
	serves   func(*request.RequestInfo) bool

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
		requests: newRequests(),
		serves:   c.cfg.Serves,
		authentication: newOutcomes("authentication_attempts", "authentication_duration_seconds", "authentication",
			"success", "failure", "error"),
		authorization: newOutcomes("authorization_attempts_total", "authorization_duration_seconds", "authorization",
			"allowed", "denied", "no-opinion", "error"),
	}
	registry.MustRegister(m.long, m.requests, m.authentication, m.authorization, c.reading.gauge("readOnly"),
		c.mutating.gauge("mutating"))
	return m
}

// gauge returns a collector of the number of taken seats.
func (s *seats) gauge(kind string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "apiserver_current_inflight_requests", Help: "Number of requests being served, by kind.",
		ConstLabels: prometheus.Labels{"request_kind": kind},
	}, func() float64 { return float64(s.taken.Load()) })
}

// measured counts requests, and measures those that are not long-running.
func (c *Chain) measured(next http.Handler) http.Handler {
	if c.metrics == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(w, req)
		c.metrics.observe(req, callOf(req))
	})
}

// longRunning counts a long-running request until the caller calls done. It must be called after
// authorization.
func (m *metrics) longRunning(req *http.Request, info *request.RequestInfo) (done func()) {
	s := series{verb: metricVerb(req, info)}
	if m.known(info) {
		s.name(info)
	}
	s = s.clone()
	gauge := m.long.WithLabelValues(s.verb, s.group, s.version, s.resource, s.subresource, s.scope, "apiserver")
	gauge.Inc()
	return gauge.Dec
}

// authenticated and authorized count decisions by kube-apiserver's names of results.
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
	s := series{verb: metricVerb(req, info), code: metricCode(code)}
	if strings.Contains(req.URL.RawQuery, "dryRun") {
		s.dryRun = metricDryRun(req.URL.Query().Get("dryRun"))
	}
	// Clients choose names: they become labels only if the client was authorized and the resource
	// is served.
	noPath := code == http.StatusNotFound && strings.HasPrefix(c.answer.Header().Get("Content-Type"), "text/plain")
	if c.allowed && info.IsResourceRequest && !noPath {
		s.name(info)
	}
	counts := m.requests.find(s)
	if counts == nil {
		if s.resource != "" && !m.known(info) {
			s = s.unnamed()
		}
		counts = m.requests.findOrAdd(s, c.longRunning)
	}
	counts.total.Add(1)
	if counts.duration != nil {
		took := time.Since(c.received)
		counts.duration.Observe(took)
		counts.sli.Observe(took - c.webhookTime())
	}
}

// known reports whether the names in a request may become labels.
func (m *metrics) known(info *request.RequestInfo) bool {
	for _, name := range [...]string{info.APIGroup, info.APIVersion, info.Resource, info.Subresource} {
		if len(name) > maxLabel {
			return false
		}
	}
	return m.serves != nil && m.serves(info)
}

// maxLabel bounds labels, in bytes. Groups, the longest names, are DNS subdomains.
const maxLabel = 253

// metricCode returns the label of a status code. Proxied servers choose codes, so unassigned ones
// count as the first code of their class.
func metricCode(code int) int {
	switch {
	case code == 0: // nothing was sent
		return http.StatusOK
	case code < 100 || code > 599:
		return http.StatusInternalServerError
	case http.StatusText(code) == "":
		return code / 100 * 100
	}
	return code
}

// metricDryRun returns the label of the parameter dryRun.
func metricDryRun(value string) string {
	switch value {
	case "":
		return ""
	case "All":
		return "All" // not value, which is a part of the whole query
	}
	return "invalid"
}

func metricVerb(req *http.Request, info *request.RequestInfo) string {
	switch info.Verb {
	case resource.List:
		return "LIST"
	case resource.Watch:
		return "WATCH"
	case resource.DeleteCollection:
		return "DELETECOLLECTION"
	}
	if resource.Connects(info.Subresource) {
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
	case info.Name != "" || info.Verb == resource.Create:
		return "resource"
	case info.Namespace != "":
		return "namespace"
	}
	return "cluster"
}
