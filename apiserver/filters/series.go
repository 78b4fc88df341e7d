package filters

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/internal/histogram"
	show "kelson.dev/apiserver/metrics"
)

// outcomes counts decisions by result, and how long they took. The set of results is fixed, so that
// observe needs no lock.
type outcomes struct {
	total, duration *prometheus.Desc
	byResult        map[string]*histogram.Histogram
}

func newOutcomes(total, duration, decision string, results ...string) outcomes {
	o := outcomes{
		total: prometheus.NewDesc(total, "Counter of "+decision+" attempts, by result.", []string{"result"}, nil),
		duration: prometheus.NewDesc(duration, "Duration of "+decision+" in seconds, by result.", []string{"result"},
			nil),
		byResult: map[string]*histogram.Histogram{},
	}
	for _, result := range results {
		o.byResult[result] = &histogram.Histogram{}
	}
	return o
}

func (o outcomes) observe(result string, start time.Time) { o.byResult[result].Since(start) }

// Describe implements prometheus.Collector.
func (o outcomes) Describe(out chan<- *prometheus.Desc) { out <- o.total; out <- o.duration }

// Collect implements prometheus.Collector.
func (o outcomes) Collect(out chan<- prometheus.Metric) {
	for result, durations := range o.byResult {
		c := durations.Read()
		out <- prometheus.MustNewConstMetric(o.total, prometheus.CounterValue, float64(c.Count), result)
		out <- show.Histogram(o.duration, c, result)
	}
}

// requests counts requests, and how long they took. Prometheus' own counters would cost several
// times as much.
type requests struct {
	total, duration, sli *prometheus.Desc

	mu        sync.RWMutex
	counts    map[series]*counts
	durations map[series]*histogram.Histogram // keyed by all labels but the code
	slis      map[series]*histogram.Histogram // keyed by all labels but the code and dry_run
}

// series holds the values of the labels under which a request is counted.
type series struct {
	verb, dryRun, group, version, resource, subresource, scope string

	code int
}

// name sets the labels that describe a resource from a request.
func (s *series) name(info *request.RequestInfo) {
	s.group, s.version, s.resource, s.subresource, s.scope = info.APIGroup, info.APIVersion, info.Resource,
		info.Subresource, scope(info)
}

// unnamed returns s without the labels that describe a resource.
func (s series) unnamed() series {
	s.group, s.version, s.resource, s.subresource, s.scope = "", "", "", "", ""
	return s
}

// clone copies the strings of s. Methods and names are substrings of request lines of up to a
// megabyte, which a map key must not keep in memory.
func (s series) clone() series {
	s.verb, s.group, s.version = strings.Clone(s.verb), label(s.group), label(s.version)
	s.resource, s.subresource = label(s.resource), label(s.subresource)
	return s
}

// counts has the counters of a series. Series that differ only in their code share their
// histograms.
type counts struct {
	total    atomic.Uint64
	duration *histogram.Histogram // nil for long-running requests
	sli      *histogram.Histogram // durations without the time of webhooks
}

func newRequests() *requests {
	labels := []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}
	return &requests{
		total: prometheus.NewDesc("apiserver_request_total",
			"Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
			append(labels, "code"), nil),
		duration: prometheus.NewDesc("apiserver_request_duration_seconds",
			"Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.", labels, nil),
		sli: prometheus.NewDesc("apiserver_request_sli_duration_seconds",
			"Response latency distribution (not counting webhook duration) in seconds for each verb, group, version, resource, subresource, scope and component.",
			append([]string{"verb"}, labels[2:]...), nil),
		counts: map[series]*counts{}, durations: map[series]*histogram.Histogram{},
		slis: map[series]*histogram.Histogram{},
	}
}

// find returns the counts of a series, or nil if no request of the series was counted yet.
func (r *requests) find(s series) *counts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.counts[s]
}

// findOrAdd returns the counts of a series and adds them if there are none. Series are never
// removed, so the caller must bound their number.
func (r *requests) findOrAdd(s series, longRunning bool) *counts {
	if found := r.find(s); found != nil {
		return found
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s = s.clone()
	if found := r.counts[s]; found != nil {
		return found
	}
	added := &counts{}
	r.counts[s] = added
	if !longRunning {
		s.code = 0
		added.duration = histogramOf(r.durations, s)
		s.dryRun = ""
		added.sli = histogramOf(r.slis, s)
	}
	return added
}

// label copies a part of a path and replaces invalid UTF-8, because Prometheus panics on it.
func label(part string) string { return strings.Clone(strings.ToValidUTF8(part, "\uFFFD")) }

func histogramOf(all map[series]*histogram.Histogram, s series) *histogram.Histogram {
	if all[s] == nil {
		all[s] = histogram.New(requestScale)
	}
	return all[s]
}

// Describe implements prometheus.Collector.
func (r *requests) Describe(out chan<- *prometheus.Desc) {
	out <- r.total
	out <- r.duration
	out <- r.sli
}

// Collect implements prometheus.Collector.
func (r *requests) Collect(out chan<- prometheus.Metric) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	const component = "apiserver"
	for s, c := range r.counts {
		out <- prometheus.MustNewConstMetric(r.total, prometheus.CounterValue, float64(c.total.Load()),
			s.verb, s.dryRun, s.group, s.version, s.resource, s.subresource, s.scope, component, strconv.Itoa(s.code))
	}
	for s, h := range r.durations {
		out <- metric(r.duration, h.Read(), 0, s.verb, s.dryRun, s.group, s.version, s.resource, s.subresource, s.scope,
			component)
	}
	for s, h := range r.slis {
		out <- metric(r.sli, h.Read(), 2, s.verb, s.group, s.version, s.resource, s.subresource, s.scope, component)
	}
}

// requestScale has the bounds of kube-apiserver's buckets. Its SLI metric has all but the first
// two.
var requestScale = histogram.NewScale(
	5*time.Millisecond, 25*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond,
	400*time.Millisecond,
	600*time.Millisecond, 800*time.Millisecond, time.Second, 1250*time.Millisecond, 1500*time.Millisecond,
	2*time.Second, 3*time.Second,
	4*time.Second, 5*time.Second, 6*time.Second, 8*time.Second, 10*time.Second, 15*time.Second, 20*time.Second,
	30*time.Second,
	45*time.Second, time.Minute,
)

// metric returns a metric with all buckets from the given one on, including empty ones.
func metric(desc *prometheus.Desc, c histogram.Counts, from int, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, c.Bounded())
	below := uint64(0)
	for i := range c.Bounded() {
		if below += c.Buckets[i]; i >= from {
			buckets[c.Bound(i).Seconds()] = below
		}
	}
	return prometheus.MustNewConstHistogram(desc, c.Count, c.Sum.Seconds(), buckets, labels...)
}
