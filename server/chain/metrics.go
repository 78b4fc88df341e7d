package chain

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// metrics has the names and labels that kube-apiserver's dashboards know.
type metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	sli      *prometheus.HistogramVec
	long     *prometheus.GaugeVec

	authentication, authorization outcomes

	mu  sync.RWMutex
	all map[series]seriesOf // that were met
}

// outcomes counts decisions by their result, and how long they took. The results are known, so that each request finds its own at once.
type outcomes struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	of       map[string]outcomeOf
}

type outcomeOf struct {
	total    prometheus.Counter
	duration prometheus.Observer
}

func newOutcomes(total, duration, of string, results ...string) outcomes {
	o := outcomes{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: total, Help: "Counter of " + of + " attempts, by result."}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: duration, Help: "Duration of " + of + " in seconds, by result.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result"}),
		of: map[string]outcomeOf{},
	}
	for _, result := range results {
		o.of[result] = outcomeOf{o.total.WithLabelValues(result), o.duration.WithLabelValues(result)}
	}
	return o
}

func (o outcomes) observe(result string, start time.Time) {
	of := o.of[result]
	of.total.Inc()
	of.duration.Observe(since(start))
}

func (c *Chain) newMetrics(registry *prometheus.Registry) *metrics {
	if registry == nil {
		return nil
	}
	labels := []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}
	m := &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
		}, append(labels, "code")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, labels),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_sli_duration_seconds",
			Help:    "Response latency distribution (not counting webhook duration) in seconds for each verb, group, version, resource, subresource, scope and component.",
			Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, slices.Delete(slices.Clone(labels), 1, 2)),
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		authentication: newOutcomes("authentication_attempts", "authentication_duration_seconds", "authentication", "success", "failure", "error"),
		authorization: newOutcomes("authorization_attempts_total", "authorization_duration_seconds", "authorization",
			"allowed", "denied", "no-opinion", "error"),
		all: map[series]seriesOf{},
	}
	registry.MustRegister(m.total, m.duration, m.sli, m.long,
		m.authentication.total, m.authentication.duration, m.authorization.total, m.authorization.duration,
		c.reading.gauge("readOnly"), c.mutating.gauge("mutating"))
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
	gauge := m.long.WithLabelValues(metricVerb(req, info), info.APIGroup, info.APIVersion, info.Resource, info.Subresource, scope(info), "apiserver")
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

// series is what a request is counted as: the values of labels.
type series struct {
	verb, dryRun, group, version, resource, subresource, scope string

	code int
}

// seriesOf are its metrics.
type seriesOf struct {
	total    prometheus.Counter
	duration prometheus.Observer // nil: it takes as long as its client wants
	sli      prometheus.Observer // the same without webhooks
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
	of := m.of(s, c.lasts)
	of.total.Inc()
	if of.duration != nil {
		took := time.Since(c.received)
		of.duration.Observe(took.Seconds())
		of.sli.Observe((took - c.elsewhere()).Seconds())
	}
}

// of finds the metrics of a series: one look, where Prometheus' own would be two of many labels.
func (m *metrics) of(s series, lasts bool) seriesOf {
	m.mu.RLock()
	of, ok := m.all[s]
	m.mu.RUnlock()
	if ok {
		return of
	}
	labels := []string{s.verb, s.dryRun, s.group, s.version, s.resource, s.subresource, s.scope, "apiserver"}
	if !lasts {
		of.duration = m.duration.WithLabelValues(labels...)
		of.sli = m.sli.WithLabelValues(s.verb, s.group, s.version, s.resource, s.subresource, s.scope, "apiserver")
	}
	of.total = m.total.WithLabelValues(append(labels, strconv.Itoa(s.code))...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[s] = of
	return of
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
