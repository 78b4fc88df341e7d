package filters

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/flowcontrol"
)

// Config says what a Chain is made of.
type Config struct {
	// Resources answers requests on resources.
	Resources http.Handler
	// Paths answers all others. A key that ends in a slash stands for everything below it, the longest one wins; any other
	// key for itself alone. The chain's own paths are there too unless a key replaces them: /, /healthz, /livez, /readyz,
	// /version, and /metrics if there is a registry.
	Paths map[string]http.Handler
	// Below gives what / lists of the paths that keys with a slash at their end stand for; nil: nothing.
	Below func() []string

	// Authenticator finds out who asks. A caller in process is named by WithUser instead. Whom neither knows is answered with 401:
	// it is the authenticator that lets in anonymous callers. nil: everybody else is anonymous.
	Authenticator authenticator.Request
	// Audiences are the names of this server that credentials must be for; none: they may be for anybody.
	Audiences authenticator.Audiences
	// AuditPolicy says how much of a request is recorded, and AuditSink gets the record. Either nil: there is no audit.
	AuditPolicy audit.PolicyRuleEvaluator
	AuditSink   audit.Sink
	// Authorizer decides what they may do; nil: everything.
	Authorizer authorizer.UnconditionalAuthorizer

	// Version is shown at /version.
	Version version.Info
	// Checks are what /healthz, /livez and /readyz look at, beside ping.
	Checks Checks
	// Metrics is shown at /metrics and gets the request metrics; nil: neither.
	Metrics *prometheus.Registry
	// Serves reports whether the resource, and the subresource if there is one, of a request is served. Only such names become labels
	// in Metrics. It must be cheap and safe for concurrent use. nil: no request metric has the labels of a resource.
	Serves func(*request.RequestInfo) bool

	// FlowControl decides when short requests and watches may execute; nil: MaxInFlight and MaxMutatingInFlight do.
	FlowControl *flowcontrol.Controller
	// MaxInFlight and MaxMutatingInFlight are how many short requests that read, and that write, are served at once without FlowControl; more
	// are answered with 429, but for those of system:masters. 0 means 400 and 200, as in kube-apiserver; negative: any number.
	MaxInFlight, MaxMutatingInFlight int
	// MaxLongRunningPerUser is how many long-running requests, such as watches, a user may have at once, and all service accounts of a namespace
	// together; more are answered with 429, but for those of system:masters. 0 means 10,000; negative: any number.
	MaxLongRunningPerUser int
	// Timeout is how long a short request may take; 0 means a minute.
	Timeout time.Duration
	// Stall bounds how long the transfer of a short request's body, or of its answer, may make no progress; see received and recorder for
	// the rates. 0 means ten seconds.
	Stall time.Duration
	// MaxBody is how many bytes of a body are kept before the request takes a seat; handlers read what is beyond it from the client.
	// 0 means 3 MiB, as in kube-apiserver.
	MaxBody int64
	// Bodies bounds the memory, in bytes, that the bodies of all requests and of each user need.
	Bodies Bodies
	// Log hears of panics; nil: the default logger.
	Log *slog.Logger
}

// Chain is the pipeline. Make it with New.
type Chain struct {
	cfg     Config
	handler http.Handler
	flight  flight
	metrics *metrics

	reading, mutating seats
	longRunning       seatsByUser
	unread            unread // responses without seats
	arriving          budget // of bytes that have come, of bodies that are not whole or wait for decoding
	decoding          budget // of what decoding bodies takes

	paths map[string]http.Handler
}

// New builds the pipeline. It can serve at once.
func New(cfg Config) *Chain {
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Stall == 0 {
		cfg.Stall = defaultStall
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = defaultMaxBody
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	c := &Chain{cfg: cfg}
	c.metrics = c.newMetrics(cfg.Metrics)
	c.reading.bound(cfg.MaxInFlight, defaultMaxReading)
	c.mutating.bound(cfg.MaxMutatingInFlight, defaultMaxMutating)
	c.longRunning.bound(cfg.MaxLongRunningPerUser, defaultMaxLongRunning)
	c.unread.byUser.bound(mostUnread, mostUnread)
	arriving, decoding := cfg.Bodies.limits()
	c.arriving.limit(arriving)
	c.decoding.limit(decoding)
	c.paths = c.allPaths()
	c.handler = pipeline(http.HandlerFunc(c.dispatch),
		c.recovered,     // a panic ends one request, not the process
		c.informed,      // what the path and the query ask for
		c.timed,         // short requests have a deadline
		c.drained,       // none begins after shutdown did; those under way are known
		c.noted,         // the audit record begins
		c.measured,      // how often, how long, with what outcome
		c.authenticated, // who asks
		c.audited,       // the audit record is kept, as far as the policy says
		c.impersonated,  // and on whose behalf
		c.received,      // short requests have their body
		c.limited,       // not too many at once
		c.authorized,    // whether they may
	)
	return c
}

// stage is one step of the pipeline.
type stage func(next http.Handler) http.Handler

// pipeline puts stages before a handler, the first one outermost.
func pipeline(h http.Handler, stages ...stage) http.Handler {
	for _, s := range slices.Backward(stages) {
		h = s(h)
	}
	return h
}

// ServeHTTP serves one request.
func (c *Chain) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.handler.ServeHTTP(begin(w, req))
}
