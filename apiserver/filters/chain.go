package filters

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/internal/turn"
)

// Config configures a Chain.
type Config struct {
	// Resources serves requests on resources.
	Resources http.Handler
	// Paths serves all other requests. A key that ends in a slash matches every path below it, and
	// the longest match wins; any other key matches only that path. The chain adds /, /healthz,
	// /livez, /readyz, /version, and /metrics if Metrics is set, unless a key replaces them.
	Paths map[string]http.Handler
	// Below returns the paths below keys that end in a slash, for the list at /; nil adds no paths.
	Below func() []string

	// Authenticator identifies the users of requests, except of those with a user set by WithUser.
	// Requests that it does not accept get 401, so it must accept anonymous requests itself. nil
	// makes these requests anonymous.
	Authenticator authenticator.Request
	// Audiences are the names of this server; credentials must be valid for one of them. An empty
	// list accepts any audience.
	Audiences authenticator.Audiences
	// AuditPolicy decides how much of a request is recorded, and AuditSink receives the record. If
	// either is nil, the chain records nothing.
	AuditPolicy audit.PolicyRuleEvaluator
	AuditSink   audit.Sink
	// Authorizer authorizes requests; nil allows everything.
	Authorizer authorizer.UnconditionalAuthorizer

	// Version is shown at /version.
	Version version.Info
	// Checks are the checks of /healthz, /livez and /readyz, in addition to ping.
	Checks Checks
	// Metrics is served at /metrics, and the request metrics are registered with it; nil disables
	// both.
	Metrics *prometheus.Registry
	// Serves reports whether a request names a served resource and, if it names a subresource, a
	// served subresource. Only names of served resources become labels in Metrics. It must be cheap
	// and safe for concurrent use. If Serves is nil, the labels that name resources are empty.
	Serves func(*request.RequestInfo) bool

	// LongRunning selects requests without a time limit in addition to Kubernetes' long-running
	// requests (watches, exec, …), such as streams of custom subresources. nil selects none.
	LongRunning func(*request.RequestInfo) bool

	// FlowControl decides when short requests and watches may execute. If it is nil, MaxInFlight
	// and MaxMutatingInFlight limit them.
	FlowControl *flowcontrol.Controller
	// MaxInFlight and MaxMutatingInFlight limit the concurrent short requests that read, and those
	// that write, if FlowControl is nil. Further requests get 429, except those of system:masters.
	// 0 means 400 and 200, as in kube-apiserver; negative: no limit.
	MaxInFlight, MaxMutatingInFlight int
	// MaxLongRunningPerUser is how many long-running requests, such as watches, a user may have at
	// once. The service accounts of a namespace count as one user. A request with a head of more
	// than 16 KiB counts as several. Further ones get 429, except those of system:masters. 0 means
	// 10,000; negative: no limit.
	MaxLongRunningPerUser int
	// Timeout is how long a short request may take; 0 means a minute.
	Timeout time.Duration
	// Stall is how long the transfer of a short request's body or response may make no progress;
	// received and recorder define the required rates. 0 means ten seconds.
	Stall time.Duration
	// MaxBody is how many bytes of a body are buffered before the request takes a seat; handlers
	// read the rest from the client. 0 means 3 MiB, as in kube-apiserver.
	MaxBody int64
	// Bodies bounds the memory, in bytes, that the bodies of all requests and of each user need.
	Bodies Bodies
	// Log receives panics of handlers; nil: the default logger.
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
	unread            released // while their clients do not read the response
	waiting           released // while they wait for another server
	arriving          budget   // memory of bodies that are incomplete or wait for decoding
	decoding          budget   // memory that decoding needs
	estimating        turn.Turns

	stopping atomic.Bool // see Stopping

	paths map[string]http.Handler
}

// New builds the pipeline, ready to serve.
func New(cfg Config) *Chain {
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	cfg.Stall = cmp.Or(cfg.Stall, defaultStall)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, defaultMaxBody)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	c := &Chain{cfg: cfg, estimating: turn.New(turn.Processors)}
	c.metrics = c.newMetrics(cfg.Metrics)
	c.reading.bound(cfg.MaxInFlight, defaultMaxReading)
	c.mutating.bound(cfg.MaxMutatingInFlight, defaultMaxMutating)
	c.longRunning.bound(cfg.MaxLongRunningPerUser, defaultMaxLongRunning)
	c.unread.bound(maxUnread)
	c.waiting.bound(maxWaiting)
	arriving, decoding := cfg.Bodies.limits()
	c.arriving.limit(arriving)
	c.decoding.limit(decoding)
	c.paths = c.allPaths()
	c.handler = pipeline(http.HandlerFunc(c.dispatch),
		c.recovered,     // a panic ends one request, not the process
		c.noted,         // gives the request an ID, and starts the audit record
		c.informed,      // parses path and query into the RequestInfo
		c.timed,         // gives short requests a deadline
		c.drained,       // rejects requests after shutdown began; tracks those in flight
		c.measured,      // counts requests, durations and outcomes
		c.authenticated, // identifies the user
		c.audited,       // records the request as the audit policy requires
		c.wellFormed,    // rejects malformed timeouts and long selectors
		c.impersonated,  // replaces the user by the impersonated one
		c.received,      // reads the bodies of short requests
		c.limited,       // bounds how many execute at once
		c.authorized,    // checks the user's permission
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
