package aggregator

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
)

// Config configures an Aggregator. Store, Services and Client are required.
type Config struct {
	Store *store.Store
	// Services resolves the Services that APIServices name.
	Services *services.Resolver
	// Client passes requests to this server's API as an administrator, to write APIServices. It is
	// used only by Run and Register.
	Client http.RoundTripper
	// ProxyClient returns the client certificate that identifies this server to backends; nil means
	// none. It is called for every new connection.
	ProxyClient func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// UserHeaders and UserPrefixes are the names and prefixes of further request headers, besides
	// the X-Remote ones, that proxies use to name a user. Clients must not pass them to backends,
	// so they are removed.
	UserHeaders, UserPrefixes []string
	// ForwardRedirects passes redirects of backends to clients. Otherwise, clients get 502: a
	// redirected client might send its credentials to another server (CVE-2022-3172).
	ForwardRedirects bool
	// Dial connects to backends; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Priorities are those of local APIServices; nil means discovery.CustomPriorities.
	Priorities discovery.PriorityFunc
	// Metrics registers kube-aggregator's metrics; nil disables them.
	Metrics prometheus.Registerer
	// Log receives errors that no condition shows; nil discards them.
	Log *slog.Logger
}

// Aggregator proxies requests to backends. All methods are safe for concurrent use.
type Aggregator struct {
	cfg    Config
	counts unavailableCounts
	// lifetime ends when Run has returned. Connections that switched protocols end with it.
	lifetime context.Context
	end      context.CancelFunc

	// The following are nil if no APIService names a Service.
	routes    atomic.Pointer[routes]
	listed    atomic.Pointer[discovery.Others]
	described atomic.Pointer[openapi.Others]

	mu         sync.Mutex
	renewed    chan struct{}                                // closed by the next publish
	backends   map[string]*backend                          // by name of the APIService
	priorities map[schema.GroupVersion]discovery.Priorities // not the default
}

// routes maps group versions to the backends that serve them. It is immutable.
type routes map[schema.GroupVersion]*backend

// New returns an Aggregator without backends. Run adds them.
func New(cfg Config) *Aggregator {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Priorities == nil {
		cfg.Priorities = discovery.CustomPriorities
	}
	a := &Aggregator{cfg: cfg, renewed: make(chan struct{}), backends: map[string]*backend{},
		priorities: map[schema.GroupVersion]discovery.Priorities{}}
	a.lifetime, a.end = context.WithCancel(context.Background())
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(a)
	}
	return a
}

// Discovery returns how the group versions of backends are listed, for discovery.Config.
func (a *Aggregator) Discovery() *discovery.Others { return a.listed.Load() }

// Changes returns a channel that is closed when Discovery may return another result.
func (a *Aggregator) Changes() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewed
}

// OpenAPI returns the documents of backends, for [openapi.Config].
func (a *Aggregator) OpenAPI() *openapi.Others { return a.described.Load() }

// Serves reports whether a backend serves a group version.
func (a *Aggregator) Serves(gv schema.GroupVersion) bool {
	routes := a.routes.Load()
	return routes != nil && (*routes)[gv] != nil
}

// publish makes changes of backends and priorities visible. The caller holds mu.
func (a *Aggregator) publish() {
	defer func() {
		close(a.renewed)
		a.renewed = make(chan struct{})
	}()
	if len(a.backends) == 0 {
		a.routes.Store(nil)
		a.described.Store(nil)
	} else {
		to, described := routes{}, openapi.Others{}
		for _, b := range a.backends {
			to[b.gv], described[b.gv] = b, b.described
		}
		a.routes.Store(&to)
		a.described.Store(&described)
	}
	if len(a.backends)+len(a.priorities) == 0 {
		a.listed.Store(nil)
		return
	}
	listed := discovery.Others{}
	for gv, priorities := range a.priorities {
		listed[gv] = discovery.Other{Priorities: priorities}
	}
	for _, b := range a.backends {
		listed[b.gv] = discovery.Other{Priorities: b.spec.priorities(), Served: true, Resources: b.resources,
			Stale: b.stale}
	}
	a.listed.Store(&listed)
}
