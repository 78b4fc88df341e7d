package manager

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/events"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/trace"
)

// Config describes a Manager.
type Config struct {
	// REST says where the API server is; required.
	REST *rest.Config
	// Scheme knows the Go types of the objects. Those of Kubernetes (k8s.io/api/…) are known without it.
	Scheme *runtime.Scheme
	// Name of the operator: it owns the fields that are applied. It must stay the same from one version to the next.
	Name string
	// Log is where the operator tells what it does; slog.Default() if nil.
	Log *slog.Logger
	// Trace, if any, gets the account of each reconcile.
	Trace trace.Sink
	// TracerProvider, if any, makes OpenTelemetry spans of reconciles and their writes.
	TracerProvider oteltrace.TracerProvider
	// MetricsAddress and HealthAddress are host:port to serve metrics and probes at, AccountAddress to serve the account of the
	// latest reconciles at, as kelson why reads it. Empty: not served.
	MetricsAddress, HealthAddress, AccountAddress string
	// SecureMetrics has metrics served over TLS, to those only who may get the path /metrics by the API server's authorization.
	SecureMetrics *SecureMetrics
	// GracePeriod bounds how long a stop takes; 30 s if zero.
	GracePeriod time.Duration
	// Election, if any, has one replica lead: it alone runs the controllers. Its Client is the manager's if it has none.
	Election *leader.Config
	// Webhooks says how webhooks are served, if there are any.
	Webhooks WebhookConfig
	// Informers says what is read of which kinds; its Client and Log are the manager's.
	Informers informer.Config
	// NetHTTP has the clients of all clusters send their requests by net/http alone: see client.Config.
	NetHTTP bool
	// Client, if any, is used in place of one for REST.
	Client client.Client
}

// Manager runs an operator.
type Manager struct {
	cfg     Config
	own     *Cluster
	client  client.Client // of all clusters: a request's cluster is in its context
	tracer  *trace.Tracer
	account *account // nil unless it is served
	metrics *metrics
	health  checks
	ready   checks
	hooks   webhooks
	places  places
	elected chan struct{} // closed when this replica leads

	mu          sync.Mutex
	clusters    map[string]*Cluster // that are engaged
	onCluster   []func(*Cluster) error
	controllers []*controller.Controller
	others      runnables // in every replica
	leaders     runnables // in the one that leads
	sources     runnables // informers
	ran         bool
}

// New makes a manager. It neither contacts the server nor listens before it runs.
func New(cfg Config) (*Manager, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.GracePeriod == 0 {
		cfg.GracePeriod = 30 * time.Second
	}
	m := &Manager{cfg: cfg, metrics: newMetrics(), clusters: map[string]*Cluster{}, elected: make(chan struct{})}
	own, err := m.newCluster("", cfg.REST, cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("new manager: %w", err)
	}
	m.own = own
	m.sources.add(own.informers)
	sink := cfg.Trace
	if cfg.AccountAddress != "" {
		m.account = &account{}
		if sink == nil {
			sink = m.account.sink()
		} else {
			sink = trace.Tee(sink, m.account.sink())
		}
	}
	m.tracer = trace.New(trace.Config{Sink: sink, Loops: m.loop, Provider: cfg.TracerProvider})
	m.client = m.tracer.Client(router{own.informers.Client(), m, (*Cluster).Client})
	m.ready.add("informers", m.informersSynced)
	return m, nil
}

// loop tells of a hot loop.
func (m *Manager) loop(l trace.Loop) {
	m.cfg.Log.Warn("hot loop: "+l.String(), "controllers", l.Controllers, "managers", l.Managers, "objects", l.Objects, "fields", l.Fields)
	for _, name := range l.Controllers {
		m.metrics.loops.WithLabelValues(name).Inc()
	}
}

// Client reads from the informers and writes to the server; what it has written, it reads. Its reads wait for the manager to run. In a
// reconcile it is a client of the request's cluster, elsewhere of the manager's own, or of that in reconcile.WithCluster.
func (m *Manager) Client() client.Client { return m.client }

// LiveClient reads from the server. It is a client of the same cluster as Client.
func (m *Manager) LiveClient() client.Client { return router{m.own.live, m, (*Cluster).LiveClient} }

// Informers are those of the manager's own cluster.
func (m *Manager) Informers() informer.Informers { return m.own.informers }

// Recorder records events on behalf of a component. Its method In records them in the cluster of a context; without that, they are recorded where the
// manager has met the object: where its clients read or wrote it last, or an informer has it. An object that it has not met is taken to be in the
// manager's own cluster.
func (m *Manager) Recorder(component string) *events.Recorder {
	return events.NewRecorder(component, events.Route{In: m.broadcasterIn, Of: m.broadcasterOf})
}

// Registry is for metrics of one's own.
func (m *Manager) Registry() *prometheus.Registry { return m.metrics.registry }

// Elected is closed when this replica leads; at the start, where there is no election.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// Log is the manager's logger.
func (m *Manager) Log() *slog.Logger { return m.cfg.Log }

// Add has r run while the manager does: where there is an election, in the replica that leads, and from then on; or now if that has
// come. With OnEveryReplica(r) it runs in each.
func (m *Manager) Add(r Runnable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, every := r.(everyReplica); every {
		m.others.add(r)
	} else {
		m.leaders.add(r)
	}
}

// OnEveryReplica has Add run r also where another replica leads.
func OnEveryReplica(r Runnable) Runnable { return everyReplica{r} }

type everyReplica struct{ Runnable }

// AddController makes a controller with the manager's logger, tracer, metrics and grace period, where cfg has none, and adds it.
func (m *Manager) AddController(cfg controller.Config) error {
	_, err := m.NewController(cfg)
	return err
}

// NewController is AddController, and gives the controller, to which sources can be added at any time.
func (m *Manager) NewController(cfg controller.Config) (*controller.Controller, error) {
	if cfg.Log == nil {
		cfg.Log = m.cfg.Log
	}
	if cfg.Tracer == nil {
		cfg.Tracer = m.tracer
	}
	if cfg.GracePeriod == 0 {
		cfg.GracePeriod = m.cfg.GracePeriod
	}
	if cfg.Metrics == nil {
		cfg.Metrics = m.metrics.controller(cfg.Name)
	}
	if cfg.QueueMetrics == nil {
		cfg.QueueMetrics = m.metrics.queue(cfg.Name)
	}
	if cfg.Clusters == nil {
		cfg.Clusters = clusters{m}
	}
	c, err := controller.New(cfg)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.controllers = append(m.controllers, c)
	m.mu.Unlock()
	m.metrics.watch(c)
	if c.EveryReplica() {
		m.Add(OnEveryReplica(c))
		return c, nil
	}
	if m.cfg.Election != nil {
		// Its caches are ready, and its queue is full, when this replica is elected.
		m.Add(OnEveryReplica(Func(func(ctx context.Context) error {
			if err := c.Warm(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})))
	}
	m.Add(c)
	return c, nil
}

// AddShards takes part in the division of work that controllers have as their Gate: from when the informers run until the controllers
// have ended. What comes to this replica waits until the informers have what was written before.
func (m *Manager) AddShards(s *leader.Shards) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.CatchUpWith(m.catchUp)
	m.sources.add(s)
}
