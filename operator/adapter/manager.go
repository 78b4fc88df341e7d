package adapter

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	crcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"kelson.dev/operator/adapter/cluster"
	"kelson.dev/operator/trace"
)

// Manager is a controller-runtime manager whose cache and client are the library's. All other parts
// are controller-runtime's own code: runnables, controllers and their queues, webhooks, metrics,
// probes and leader election.
//
// It adds three things to controllers. Reads see the process's own writes. If the environment
// variable KELSON_TRACE is set, each reconcile is recorded with its causes and writes, for kelson
// why; hot loops are logged in any case. With leader election, the first reconcile waits until the
// caches have everything that the previous leader wrote.
type Manager struct {
	crmanager.Manager
	cache  *cluster.Cache // nil if the options have a NewCache function
	traced *tracing
	handed *handover // nil without leader election
}

var _ crmanager.Manager = (*Manager)(nil)

// NewManager is controller-runtime's ctrl.NewManager with the library's cache and client. Options
// have the same meaning, except:
//
//   - Cache.NewInformer has no effect; a warning is logged.
//   - The manager uses the caller's functions NewCache and NewClient. Reads see own writes only if
//     both return the library's implementations.
//   - Cache.EnableWatchBookmarks and Client.Cache.EnableReadYourWritesConsistency have no effect:
//     watches always accept bookmarks, and reads always see own writes.
//
// The result can be passed to all of controller-runtime's packages, such as builder, controller and
// webhook.
func NewManager(config *rest.Config, o crmanager.Options) (crmanager.Manager, error) {
	logger := o.Logger
	if logger.GetSink() == nil {
		logger = crlog.Log.WithName("kelson")
	}
	m := &Manager{}
	var err error
	if m.traced, err = newTracing(slog.New(logr.ToSlogHandler(logger))); err != nil {
		return nil, fmt.Errorf("new manager: %w", err)
	}
	newCache, newClient := m.traced.constructors(&m.cache, o.Cache.HTTPClient != nil)
	if o.NewCache == nil {
		o.NewCache = newCache
	}
	if o.NewClient == nil {
		o.NewClient = newClient
	}
	if m.Manager, err = crmanager.New(config, o); err != nil {
		m.traced.close()
		return nil, err
	}
	if o.LeaderElection && m.cache != nil {
		m.handed = newHandover(m.cache)
	}
	return m, nil
}

// GetAPIReader returns a reader of the server. Each read is recorded in the trace of the reconcile
// whose context it gets.
func (m *Manager) GetAPIReader() crclient.Reader {
	if m.cache == nil {
		return m.Manager.GetAPIReader()
	}
	return cluster.Live(m.cache, m.traced.tracer)
}

// Add adds a runnable. Controllers for reconcile.Request are traced from then on.
func (m *Manager) Add(r crmanager.Runnable) error {
	m.traced.attach(r, m.handed)
	return m.Manager.Add(r)
}

// Start runs the manager until ctx ends.
func (m *Manager) Start(ctx context.Context) error {
	defer m.traced.close()
	return m.Manager.Start(ctx)
}

// ClusterOption gives the library's cache and client to a cluster of controller-runtime, unless its
// options have constructors:
//
//	member, err := cluster.New(config, adapter.ClusterOption)
//
// It works as a cluster option of multicluster-runtime's providers too. Writes in the cluster
// appear in the trace of the reconcile that makes them, if the context is the reconciler's.
func ClusterOption(o *crcluster.Options) {
	var own *cluster.Cache
	newCache, newClient := (&tracing{}).constructors(&own, o.HTTPClient != nil)
	if o.NewCache == nil {
		o.NewCache = newCache
	}
	if o.NewClient == nil {
		o.NewClient = newClient
	}
}

// constructors returns functions for options of controller-runtime. The first one sets created.
func (t *tracing) constructors(created **cluster.Cache,
	ownHTTPClient bool) (crcache.NewCacheFunc, crclient.NewClientFunc) {
	newCache := func(config *rest.Config, o crcache.Options) (crcache.Cache, error) {
		c, err := cluster.NewCache(config, o, cluster.Config{OwnHTTPClient: ownHTTPClient, Deliver: t.deliver})
		if err != nil {
			return nil, err
		}
		*created = c
		return c, nil
	}
	newClient := func(config *rest.Config, o crclient.Options) (crclient.Client, error) {
		return cluster.NewClient(config, o, t.tracer)
	}
	return newCache, newClient
}

// newTracing opens the trace that the environment configures.
func newTracing(log *slog.Logger) (*tracing, error) {
	t := &tracing{log: log}
	cfg := trace.Config{Loops: func(l trace.Loop) {
		log.Warn("hot loop: "+l.String(), "controllers", l.Controllers, "managers", l.Managers, "objects", l.Objects,
			"fields", l.Fields)
	}}
	file, err := trace.Open(os.Getenv(trace.Env))
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	if file != nil {
		cfg.Sink, t.file = trace.JSON(file), file
	}
	t.tracer = trace.New(cfg)
	return t, nil
}

// close closes the trace. It logs errors, which do not affect the manager.
func (t *tracing) close() {
	if t.file == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.controllers {
		c.ended()
	}
	if err := t.file.Close(); err != nil {
		t.log.Error("write trace", "err", err)
	}
}
