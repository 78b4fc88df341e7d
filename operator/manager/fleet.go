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
	// ErrClusterNotFound says that no cluster of a name is engaged.
	ErrClusterNotFound = errors.New("cluster not found")
	// ErrDisengaged is the cause of the end of a cluster's context, and of those of reconciles there.
	ErrDisengaged = errors.New("the cluster was disengaged")
)

// A Provider discovers clusters: it engages those that come and disengages those that go.
type Provider interface {
	// Run does so until ctx ends. The clusters stay engaged then; they end with the manager. An error ends the manager.
	Run(ctx context.Context, m *Manager) error
}

// AddProvider has a provider run while the manager does, in every replica.
func (m *Manager) AddProvider(p Provider) {
	m.Add(OnEveryReplica(Func(func(ctx context.Context) error { return p.Run(ctx, m) })))
}

// Engage has the controllers look after a further cluster, at any time: before the manager runs, or while it does. Requests for objects
// there carry the name. What was said to OnCluster makes the sources. It does not wait for the server.
func (m *Manager) Engage(name string, cfg *rest.Config) (*Cluster, error) {
	if name == "" {
		return nil, errors.New("engage cluster: it needs a name")
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
		return nil, fmt.Errorf("engage cluster: there is one named %q", name)
	}
	m.clusters[name] = c
	m.sources.add(Func(func(ctx context.Context) error {
		c.run(ctx, m.cfg.GracePeriod+stopMargin)
		m.forget(c)
		return nil
	}))
	told := slices.Clone(m.onCluster)
	m.mu.Unlock()
	c.unready = m.ready.add("informers of "+name, func(context.Context) error { return synced(c) })
	for _, f := range told {
		if err := f(c); err != nil {
			m.disengage(c)
			return nil, fmt.Errorf("engage cluster %q: %w", name, err)
		}
	}
	m.cfg.Log.Info("cluster engaged", "cluster", name)
	return c, nil
}

// Disengage takes a cluster away from the controllers, at any time; its objects stay as they are. It waits neither for its server nor for
// reconciles. When it returns, nothing is begun there any longer: the requests for it are dropped, and its name may be engaged again, for a
// cluster that begins anew. Reconciles that run there have their controller's grace period; then their context ends by ErrDisengaged. They
// keep their clients and informers until they return.
//
// It must not be called by what was said to OnCluster.
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

// disengage ends a cluster, whose setup is locked. Its informers and events end by themselves.
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
	delete(m.clusters, c.name) // now there may be another one
	m.mu.Unlock()
	m.forget(c)
	m.cfg.Log.Info("cluster disengaged", "cluster", c.name)
}

// forget drops what is remembered of a cluster that was disengaged, unless another one has its name or host.
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

// OnCluster calls f for the manager's own cluster and each that is engaged, now or when it is. f makes the sources of a controller, say. It
// must neither wait for the server nor call OnCluster or Disengage.
func (m *Manager) OnCluster(f func(*Cluster) error) error {
	m.mu.Lock()
	all := []*Cluster{m.own}
	for _, c := range m.clusters {
		all = append(all, c)
	}
	m.onCluster = append(m.onCluster, f)
	m.mu.Unlock()
	for _, c := range all {
		if err := c.make(f); err != nil {
			return err
		}
	}
	return nil
}

// make calls f for the cluster, unless it was disengaged.
func (c *Cluster) make(f func(*Cluster) error) error {
	if c.name == "" {
		return f(c) // it stays
	}
	c.setup.Lock()
	defer c.setup.Unlock()
	if c.engaged.Err() != nil {
		return nil
	}
	return f(c)
}

// Cluster finds a cluster by its name; the error is ErrClusterNotFound. An empty name is that of the manager's own.
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

// ClusterFrom is the cluster of a context (see reconcile.Cluster). In a reconcile it is the one in which that has begun, although it may have
// been disengaged meanwhile, and another one have its name.
func (m *Manager) ClusterFrom(ctx context.Context) (*Cluster, error) {
	name := reconcile.Cluster(ctx)
	if c, ok := ctx.Value(clusterKey{}).(*Cluster); ok && c.name == name {
		return c, nil
	}
	return m.Cluster(name)
}

// clusters is the manager as its controllers see it.
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
