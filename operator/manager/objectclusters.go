package manager

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
	"kelson.dev/operator/internal/boundedmap"
)

// objectClusters records, by uid, the additional cluster of each object that the manager's clients
// read or wrote recently.
type objectClusters struct {
	mu   sync.Mutex
	last boundedmap.Map[types.UID, string]
}

// maxObjectClusters bounds the number of objects.
const maxObjectClusters = 4096

func (p *objectClusters) init() { p.last = boundedmap.New[types.UID, string](maxObjectClusters, nil) }

func (p *objectClusters) note(uid types.UID, cluster string) {
	if uid == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.Set(uid, cluster)
}

func (p *objectClusters) clusterOf(uid types.UID) (cluster string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.Get(uid)
}

// broadcasterIn returns the broadcaster of a context's cluster; nil if that was disengaged.
func (m *Manager) broadcasterIn(ctx context.Context) *events.Broadcaster {
	c, err := m.ClusterFrom(ctx)
	if err != nil {
		return nil
	}
	return c.events
}

// broadcasterOf returns the broadcaster of an object's cluster: the one where the manager's clients
// last read or wrote the object, else the one whose informers have it, else the manager's own. It
// is nil if the cluster was disengaged.
func (m *Manager) broadcasterOf(about runtime.Object) *events.Broadcaster {
	obj, ok := about.(client.Object)
	if !ok || obj.GetUID() == "" {
		return m.own.events
	}
	if name, known := m.objectClusters.clusterOf(obj.GetUID()); known {
		c, err := m.Cluster(name)
		if err != nil {
			return nil
		}
		return c.events
	}
	m.mu.Lock()
	members := slices.Collect(maps.Values(m.clusters))
	m.mu.Unlock()
	if len(members) == 0 || m.own.informers.Has(obj) {
		return m.own.events
	}
	for _, c := range members {
		if c.informers.Has(obj) {
			return c.events
		}
	}
	return m.own.events
}
