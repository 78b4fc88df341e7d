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

// outcomes counts decisions and their durations by result. The set of results is fixed, so counting needs no lock.
type outcomes struct {
	total, duration *prometheus.Desc
	of              map[string]*histogram.Histogram
}

func newOutcomes(total, duration, of string, results ...string) outcomes {
	o := outcomes{
		total:    prometheus.NewDesc(total, "Counter of "+of+" attempts, by result.", []string{"result"}, nil),
		duration: prometheus.NewDesc(duration, "Duration of "+of+" in seconds, by result.", []string{"result"}, nil),
		of:       map[string]*histogram.Histogram{},
	}
	for _, result := range results {
		o.of[result] = &histogram.Histogram{}
	}
	return o
}

func (o outcomes) observe(result string, start time.Time) { o.of[result].Since(start) }

// Describe implements prometheus.Collector.
func (o outcomes) Describe(out chan<- *prometheus.Desc) { out <- o.total; out <- o.duration }

// Collect implements prometheus.Collector.
func (o outcomes) Collect(out chan<- prometheus.Metric) {
	for result, of := range o.of {
		c := of.Read()
		out <- prometheus.MustNewConstMetric(o.total, prometheus.CounterValue, float64(c.Count), result)
		out <- show.Histogram(o.duration, c, result)
	}
}

// requests counts requests and their durations. Prometheus' own counters cost several times as much.
type requests struct {
	total, duration, sli *prometheus.Desc

	mu    sync.RWMutex
	all   map[series]*seriesCounts // seen so far
	tooks map[series]*ladder       // keyed without the code
	slis  map[series]*ladder       // keyed without the code and dryRun
}

// series identifies a time series by its label values.
type series struct {
	verb, dryRun, group, version, resource, subresource, scope string

	code int
}

// name sets the labels of the resource of a request.
func (s *series) name(info *request.RequestInfo) {
	s.group, s.version, s.resource, s.subresource, s.scope = info.APIGroup, info.APIVersion, info.Resource, info.Subresource, scope(info)
}

// unnamed returns s without the labels of a resource.
func (s series) unnamed() series {
	s.group, s.version, s.resource, s.subresource, s.scope = "", "", "", "", ""
	return s
}

// kept returns a copy of s for keeping. Methods and names are substrings of request lines of up to a megabyte, which
// they would keep alive.
func (s series) kept() series {
	s.verb, s.group, s.version = strings.Clone(s.verb), label(s.group), label(s.version)
	s.resource, s.subresource = label(s.resource), label(s.subresource)
	return s
}

// seriesCounts holds the counts of a series. Series that differ only in their code share their durations.
type seriesCounts struct {
	total atomic.Uint64
	took  *ladder // nil: long-running
	sli   *ladder // took without the time of webhooks
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
		all: map[series]*seriesCounts{}, tooks: map[series]*ladder{}, slis: map[series]*ladder{},
	}
}

// find returns the counts of a series, or nil if no request of it was counted yet.
func (r *requests) find(s series) *seriesCounts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all[s]
}

// count returns the counts of a series and creates them if there are none. Series are never removed: the caller must bound their
// number.
func (r *requests) count(s series, longRunning bool) *seriesCounts {
	if of := r.find(s); of != nil {
		return of
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s = s.kept()
	if of := r.all[s]; of != nil {
		return of
	}
	of := &seriesCounts{}
	r.all[s] = of
	if !longRunning {
		s.code = 0
		of.took = ladderOf(r.tooks, s)
		s.dryRun = ""
		of.sli = ladderOf(r.slis, s)
	}
	return of
}

// label copies a part of a path as a label. Prometheus panics if a label is not valid UTF-8.
func label(part string) string { return strings.Clone(strings.ToValidUTF8(part, "\uFFFD")) }

func ladderOf(all map[series]*ladder, s series) *ladder {
	if all[s] == nil {
		all[s] = &ladder{}
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
	for s, of := range r.all {
		out <- prometheus.MustNewConstMetric(r.total, prometheus.CounterValue, float64(of.total.Load()),
			s.verb, s.dryRun, s.group, s.version, s.resource, s.subresource, s.scope, component, strconv.Itoa(s.code))
	}
	for s, took := range r.tooks {
		out <- took.metric(r.duration, 0, s.verb, s.dryRun, s.group, s.version, s.resource, s.subresource, s.scope, component)
	}
	for s, took := range r.slis {
		out <- took.metric(r.sli, 2, s.verb, s.group, s.version, s.resource, s.subresource, s.scope, component)
	}
}

// bounds are the upper bounds of kube-apiserver's buckets. Its SLI histogram omits the first two.
var bounds = [...]time.Duration{
	5 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 600 * time.Millisecond,
	800 * time.Millisecond, time.Second, 1250 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second,
	8 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute,
}

// ladder is a histogram with these buckets. Most durations fall into the first.
type ladder struct {
	sum   atomic.Int64
	steps [len(bounds) + 1]atomic.Uint64
}

func (l *ladder) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	l.steps[i].Add(1)
	l.sum.Add(int64(d))
}

// metric returns the histogram with the buckets from index from on.
func (l *ladder) metric(desc *prometheus.Desc, from int, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds))
	below := uint64(0)
	for i := range bounds {
		if below += l.steps[i].Load(); i >= from {
			buckets[bounds[i].Seconds()] = below
		}
	}
	return prometheus.MustNewConstHistogram(desc, below+l.steps[len(bounds)].Load(), time.Duration(l.sum.Load()).Seconds(), buckets, labels...)
}
