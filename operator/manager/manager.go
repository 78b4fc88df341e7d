package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/events"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/trace"
)

// Config describes a Manager.
type Config struct {
	// REST says where the API server is; required.
	REST *rest.Config
	// Scheme knows the Go types of the objects; by default those of Kubernetes.
	Scheme *runtime.Scheme
	// Name of the operator: it owns the fields that are applied. It must stay the same from one version to the next.
	Name string
	// Log is where the operator tells what it does; slog.Default() if nil.
	Log *slog.Logger
	// Trace, if any, gets the account of each reconcile.
	Trace trace.Sink
	// MetricsAddress and HealthAddress are host:port to serve metrics and probes at. Empty: not served.
	MetricsAddress, HealthAddress string
	// GracePeriod bounds how long a stop takes; 30 s if zero.
	GracePeriod time.Duration
	// Client, if any, is used in place of one for REST.
	Client client.Client
}

// Manager runs an operator.
type Manager struct {
	cfg       Config
	live      client.Client // straight to the server
	client    client.Client
	informers informer.Informers
	events    *events.Broadcaster
	tracer    *trace.Tracer
	metrics   *metrics
	health    checks
	ready     checks

	mu        sync.Mutex
	runnables []Runnable
	running   *group // set while it runs
	ran       bool
}

// New makes a manager. It neither contacts the server nor listens before it runs.
func New(cfg Config) (*Manager, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.GracePeriod == 0 {
		cfg.GracePeriod = 30 * time.Second
	}
	live := cfg.Client
	if live == nil {
		var err error
		if live, err = client.New(client.Config{REST: cfg.REST, Scheme: cfg.Scheme, FieldOwner: cfg.Name, Log: cfg.Log}); err != nil {
			return nil, fmt.Errorf("new manager: %w", err)
		}
	}
	informers, err := informer.New(informer.Config{Client: live, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("new manager: %w", err)
	}
	m := &Manager{
		cfg:       cfg,
		live:      live,
		informers: informers,
		events:    events.New(events.Config{Client: live, Log: cfg.Log}),
		tracer:    trace.New(trace.Config{Sink: cfg.Trace}),
		metrics:   newMetrics(),
	}
	m.client = m.tracer.Client(m.informers.Client())
	m.ready.add("informers", m.informersSynced)
	return m, nil
}

// Client reads from the informers and writes to the server; what it has written, it reads. Its reads wait for the manager to run.
func (m *Manager) Client() client.Client { return m.client }

// LiveClient reads from the server.
func (m *Manager) LiveClient() client.Client { return m.live }

// Informers are those that Client reads from.
func (m *Manager) Informers() informer.Informers { return m.informers }

// Recorder records events on behalf of a component.
func (m *Manager) Recorder(component string) *events.Recorder { return m.events.Recorder(component) }

// Log is the manager's logger.
func (m *Manager) Log() *slog.Logger { return m.cfg.Log }

// Add has r run while the manager does: from when the informers are started, or now if they are.
func (m *Manager) Add(r Runnable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running != nil {
		m.running.start(r)
		return
	}
	m.runnables = append(m.runnables, r)
}

// AddController makes a controller with the manager's logger, tracer, metrics and grace period, where cfg has none, and adds it.
func (m *Manager) AddController(cfg controller.Config) error {
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
	c, err := controller.New(cfg)
	if err != nil {
		return err
	}
	m.metrics.watch(c)
	m.Add(c)
	return nil
}

// stopMargin is what a stop may take beyond the grace period, which is that of the reconciles.
const stopMargin = 5 * time.Second

// Run runs everything until ctx ends or something fails, and stops it. It can be called once. The error is that of what failed, and
// nil when ctx was ended and all has stopped in time.
func (m *Manager) Run(ctx context.Context) error {
	failures := make(chan error, 1)
	failed := func(err error) {
		select {
		case failures <- err:
		default: // it is ending already
		}
	}
	servers, sources, workers := newGroup(ctx, failed), newGroup(ctx, failed), newGroup(ctx, failed)

	if err := m.startServers(servers); err != nil {
		servers.cancel()
		return err
	}
	sources.start(m.informers)
	sources.start(m.events)
	if err := m.startRunnables(workers); err != nil {
		failed(err)
	}

	var errs []error
	select {
	case <-ctx.Done():
	case err := <-failures:
		errs = append(errs, err)
	}

	m.mu.Lock()
	m.running = nil
	m.mu.Unlock()
	timer := time.NewTimer(m.cfg.GracePeriod + stopMargin)
	defer timer.Stop()
	errs = append(errs,
		workers.stop("controllers", timer.C),
		sources.stop("informers and events", timer.C),
		servers.stop("servers", timer.C),
	)
	return errors.Join(errs...)
}

func (m *Manager) startRunnables(workers *group) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ran {
		return errors.New("the manager has run already")
	}
	m.ran, m.running = true, workers
	for _, r := range m.runnables {
		workers.start(r)
	}
	m.runnables = nil
	return nil
}
