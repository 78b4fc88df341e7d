package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"

	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
)

var (
	// ErrClusterNotFound means that no cluster with the name is engaged.
	ErrClusterNotFound = errors.New("cluster not found")
	// ErrDisengaged is the cause with which the context of a disengaged cluster and the contexts of
	// its reconciles end.
	ErrDisengaged = errors.New("the cluster was disengaged")
)

// A Provider discovers clusters: it engages new ones and disengages those that no longer exist.
type Provider interface {
	// Run engages and disengages clusters until ctx ends. The clusters then stay engaged until the
	// manager ends. If Run returns an error, the manager stops.
	Run(ctx context.Context, m *Manager) error
}

// AddProvider runs a provider with the manager, on every replica.
func (m *Manager) AddProvider(p Provider) {
	m.Add(OnEveryReplica(Func(func(ctx context.Context) error { return p.Run(ctx, m) })))
}

// Engage adds an additional cluster to all controllers. It can be called before and while the
// manager runs. Requests for objects in the cluster carry its name. The functions passed to
// OnCluster add its sources. Engage does not wait for the server.
func (m *Manager) Engage(name string, cfg *rest.Config) (*Cluster, error) {
	if name == "" {
		return nil, errors.New("engage cluster: the name is empty")
	}
	c, err := m.newCluster(name, cfg, nil)
	if err != nil {
		return nil, fmt.Errorf("engage cluster %q: %w", name, err)
	}
	c.setup.Lock()
	defer c.setup.Unlock()
	m.mu.Lock()
	if m.clusters[name] != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("engage cluster: a cluster named %q is already engaged", name)
	}
	m.clusters[name] = c
	m.sources.add(Func(func(ctx context.Context) error {
		c.run(ctx, m.cfg.GracePeriod+stopMargin)
		m.forget(c)
		return nil
	}))
	callbacks := slices.Clone(m.onCluster)
	m.mu.Unlock()
	c.unready = m.ready.add("informers of "+name, func(context.Context) error { return synced(c) })
	for _, f := range callbacks {
		if err := f(c); err != nil {
			m.disengage(c)
			return nil, fmt.Errorf("engage cluster %q: %w", name, err)
		}
	}
	m.cfg.Log.Info("cluster engaged", "cluster", name)
	return c, nil
}

// Disengage removes a cluster from the controllers; it can be called at any time and does not
// change the cluster's objects. It does not wait for its server or for reconciles. When it returns,
// no further work starts in the cluster, waiting requests for it are dropped, and its name can be
// engaged again for a different cluster. Reconciles in progress have their controller's grace
// period; then their context ends with ErrDisengaged. They keep their clients and informers until
// they return.
//
// OnCluster functions must not call it.
func (m *Manager) Disengage(name string) error {
	m.mu.Lock()
	c := m.clusters[name]
	m.mu.Unlock()
	if c != nil {
		c.setup.Lock()
		defer c.setup.Unlock()
	}
	if c == nil || c.engaged.Err() != nil {
		return fmt.Errorf("disengage: %w: %q", ErrClusterNotFound, name)
	}
	m.disengage(c)
	return nil
}

// disengage ends a cluster. The caller holds its setup lock. The informers and events end on their
// own.
func (m *Manager) disengage(c *Cluster) {
	c.close(fmt.Errorf("%w: %q", ErrDisengaged, c.name))
	c.unready()
	m.mu.Lock()
	controllers := slices.Clone(m.controllers)
	m.mu.Unlock()
	for _, each := range controllers {
		each.Disengage(c.name)
	}
	m.mu.Lock()
	delete(m.clusters, c.name) // from now on, another cluster can have the name
	m.mu.Unlock()
	m.forget(c)
	m.cfg.Log.Info("cluster disengaged", "cluster", c.name)
}

// forget drops what is recorded about a disengaged cluster, unless another cluster has its name or
// host.
func (m *Manager) forget(c *Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clusters[c.name] == nil {
		m.tracer.Forget(c.name)
	}
	for _, other := range m.clusters {
		if other.host == c.host {
			return
		}
	}
	if c.host != m.own.host {
		m.metrics.forget(c.host)
	}
}

// OnCluster calls f for the manager's own cluster, for all engaged clusters, and for each cluster
// that is engaged later, for example to add sources to a controller. f must not wait for the
// server, and must not call OnCluster or Disengage.
func (m *Manager) OnCluster(f func(*Cluster) error) error {
	m.mu.Lock()
	all := []*Cluster{m.own}
	for _, c := range m.clusters {
		all = append(all, c)
	}
	m.onCluster = append(m.onCluster, f)
	m.mu.Unlock()
	for _, c := range all {
		if err := c.callUnlessDisengaged(f); err != nil {
			return err
		}
	}
	return nil
}

// callUnlessDisengaged calls f for the cluster, unless it was disengaged.
func (c *Cluster) callUnlessDisengaged(f func(*Cluster) error) error {
	if c.name == "" {
		return f(c) // never disengaged
	}
	c.setup.Lock()
	defer c.setup.Unlock()
	if c.engaged.Err() != nil {
		return nil
	}
	return f(c)
}

// Cluster returns a cluster by its name, or ErrClusterNotFound. The empty name is that of the
// manager's own cluster.
func (m *Manager) Cluster(name string) (*Cluster, error) {
	if name == "" {
		return m.own, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.clusters[name]; c != nil && c.engaged.Err() == nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrClusterNotFound, name)
}

type clusterKey struct{}

// ClusterFrom returns the cluster of a context (see reconcile.Cluster). In a reconcile, it is the
// cluster in which the reconcile started, even if that was disengaged since and another one has its
// name.
func (m *Manager) ClusterFrom(ctx context.Context) (*Cluster, error) {
	name := reconcile.Cluster(ctx)
	if c, ok := ctx.Value(clusterKey{}).(*Cluster); ok && c.name == name {
		return c, nil
	}
	return m.Cluster(name)
}

// clusters implements controller.Clusters.
type clusters struct{ m *Manager }

func (c clusters) Enter(ctx context.Context, name string) (controller.Visit, bool) {
	in, err := c.m.Cluster(name)
	if err == nil && in.behind.Load() > 0 {
		return controller.Visit{Engaged: in.engaged, Later: catchUpRetry}, true
	}
	if err != nil || !in.enter() {
		return controller.Visit{}, false
	}
	return controller.Visit{Context: in.in(ctx), Engaged: in.engaged, Leave: in.leave}, true
}
