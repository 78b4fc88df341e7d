package manager

import (
	"cmp"
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

// Config configures a Manager.
type Config struct {
	// REST is the address and credentials of the API server; required.
	REST *rest.Config
	// Scheme has the Go types of the objects. The types of Kubernetes (k8s.io/api/…) need not be
	// registered.
	Scheme *runtime.Scheme
	// Name of the operator: the field manager of its applies. It must not change between versions.
	Name string
	// Log receives the operator's log; slog.Default() if nil.
	Log *slog.Logger
	// Trace, if not nil, receives the record of each reconcile.
	Trace trace.Sink
	// TracerProvider, if not nil, creates OpenTelemetry spans of reconciles and their writes.
	TracerProvider oteltrace.TracerProvider
	// MetricsAddress, HealthAddress and TraceAddress are host:port addresses to serve metrics,
	// probes, and the trace of recent reconciles at. kelson why reads the trace. An empty address
	// is not served.
	MetricsAddress, HealthAddress, TraceAddress string
	// SecureMetrics serves metrics over TLS, only to clients that the API server authorizes to get
	// the path /metrics.
	SecureMetrics *SecureMetrics
	// GracePeriod bounds how long shutdown takes; 30 s if zero.
	GracePeriod time.Duration
	// Election, if not nil, elects one replica to run the controllers. Its Client defaults to the
	// manager's.
	Election *leader.Config
	// Webhooks configures how webhooks are served.
	Webhooks WebhookConfig
	// Informers configures the informers; its Client and Log are ignored.
	Informers informer.Config
	// Plain turns off optimizations of the clients of all clusters: see client.Plain.
	Plain client.Plain
	// Client, if not nil, is used instead of a new client for REST.
	Client client.Client
}

// Manager runs an operator.
type Manager struct {
	cfg            Config
	own            *Cluster
	client         client.Client // for all clusters: the cluster of a request is in its context
	tracer         *trace.Tracer
	traces         *traceLog // nil unless served
	metrics        *metrics
	health         checks
	ready          checks
	hooks          webhooks
	objectClusters objectClusters
	elected        chan struct{} // closed when this replica leads

	mu          sync.Mutex
	clusters    map[string]*Cluster // engaged ones
	onCluster   []func(*Cluster) error
	controllers []*controller.Controller
	others      runnables // on every replica
	leaders     runnables // on the leader
	sources     runnables // informers
	ran         bool
}

// New returns a manager. It does not contact the server or listen before Run.
func New(cfg Config) (*Manager, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.GracePeriod = cmp.Or(cfg.GracePeriod, 30*time.Second)
	m := &Manager{cfg: cfg, metrics: newMetrics(), clusters: map[string]*Cluster{}, elected: make(chan struct{})}
	m.objectClusters.init()
	own, err := m.newCluster("", cfg.REST, cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("new manager: %w", err)
	}
	m.own = own
	m.sources.add(own.informers)
	sink := cfg.Trace
	if cfg.TraceAddress != "" {
		m.traces = &traceLog{}
		if sink == nil {
			sink = m.traces.sink()
		} else {
			sink = trace.Tee(sink, m.traces.sink())
		}
	}
	m.tracer = trace.New(trace.Config{Sink: sink, Loops: m.loop, Provider: cfg.TracerProvider})
	m.client = m.tracer.Client(router{own.informers.Client(), m, (*Cluster).Client})
	m.ready.add("informers", m.informersSynced)
	return m, nil
}

// loop logs and counts a hot loop.
func (m *Manager) loop(l trace.Loop) {
	m.cfg.Log.Warn("hot loop: "+l.String(), "controllers", l.Controllers, "managers", l.Managers, "objects", l.Objects,
		"fields", l.Fields)
	for _, name := range l.Controllers {
		m.metrics.loops.WithLabelValues(name).Inc()
	}
}

// Client returns a client that reads from the informers and writes to the server; its reads see its
// own writes. Reads wait for the manager to run. In a reconcile, the client uses the cluster of the
// request; elsewhere, the manager's own, or that of reconcile.WithCluster.
func (m *Manager) Client() client.Client { return m.client }

// LiveClient returns a client that reads from the server. Otherwise it is like Client: it uses the
// same cluster, its writes are traced, and reads of Client see them.
func (m *Manager) LiveClient() client.Client { return liveReads{m.client} }

// Informers returns the informers of the manager's own cluster.
func (m *Manager) Informers() informer.Informers { return m.own.informers }

// Recorder returns a recorder of events on behalf of a component. Its method In records them in the
// cluster of a context. Other events are recorded in the cluster where the manager's clients last
// read or wrote the object, or in which an informer has it, or else in the manager's own.
func (m *Manager) Recorder(component string) *events.Recorder {
	return events.NewRecorder(component, events.Route{In: m.broadcasterIn, Of: m.broadcasterOf})
}

// Registry returns the registry of the manager's metrics, for additional metrics.
func (m *Manager) Registry() *prometheus.Registry { return m.metrics.registry }

// Elected returns a channel that is closed when this replica leads, or at the start if there is no
// leader election.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// Log returns the manager's logger.
func (m *Manager) Log() *slog.Logger { return m.cfg.Log }

// Add runs r with the manager. With leader election, r starts when this replica leads, and
// otherwise when the manager starts. If that has happened already, r starts immediately.
// OnEveryReplica(r) runs on all replicas.
func (m *Manager) Add(r Runnable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, every := r.(everyReplica); every {
		m.others.add(r)
	} else {
		m.leaders.add(r)
	}
}

// OnEveryReplica makes Add run r on every replica, leading or not.
func OnEveryReplica(r Runnable) Runnable { return everyReplica{r} }

type everyReplica struct{ Runnable }

// AddController adds a controller. Log, Tracer, Metrics and GracePeriod default to the manager's.
func (m *Manager) AddController(cfg controller.Config) error {
	_, err := m.NewController(cfg)
	return err
}

// NewController is AddController and returns the controller, to which sources can be added at any
// time. The name must be unique in the manager: metrics, traces and default finalizers contain it.
func (m *Manager) NewController(cfg controller.Config) (*controller.Controller, error) {
	cfg.Log = cmp.Or(cfg.Log, m.cfg.Log)
	cfg.Tracer = cmp.Or(cfg.Tracer, m.tracer)
	cfg.GracePeriod = cmp.Or(cfg.GracePeriod, m.cfg.GracePeriod)
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
	if err := m.register(c); err != nil {
		return nil, err
	}
	m.metrics.watch(c)
	if c.EveryReplica() {
		m.Add(OnEveryReplica(c))
		return c, nil
	}
	if m.cfg.Election != nil {
		// So that its caches are ready and its queue is filled when this replica is elected.
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

// register adds a controller with a new name to the list.
func (m *Manager) register(c *controller.Controller) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.controllers {
		if other.Name() == c.Name() {
			return fmt.Errorf("new controller: the manager already has a controller named %q: set a different name (operator.Named or controller.Config.Name)", c.Name())
		}
	}
	m.controllers = append(m.controllers, c)
	return nil
}

// AddShards runs the sharding that controllers use as their Gate, from when the informers run until
// the controllers have ended. Objects that this replica gains wait until the informers have all
// earlier writes.
func (m *Manager) AddShards(s *leader.Shards) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.CatchUpWith(m.catchUp)
	m.sources.add(s)
}
