package manager

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
	"kelson.dev/operator/internal/recent"
)

// places remembers in which further cluster the objects are that the manager's clients read or wrote last, by their uid.
type places struct {
	mu   sync.Mutex
	last recent.Map[types.UID, string]
}

func (p *places) note(uid types.UID, cluster string) {
	if uid == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.Set(uid, cluster)
}

func (p *places) of(uid types.UID) (cluster string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.Get(uid)
}

// broadcasterIn is that of the cluster of a context; nil if that was disengaged.
func (m *Manager) broadcasterIn(ctx context.Context) *events.Broadcaster {
	c, err := m.ClusterFrom(ctx)
	if err != nil {
		return nil
	}
	return c.events
}

// broadcasterOf is that of the cluster of an object: the one where the manager's clients met the object, else the one whose informers have it, else the
// manager's own. It is nil if that cluster was disengaged.
func (m *Manager) broadcasterOf(about runtime.Object) *events.Broadcaster {
	obj, ok := about.(client.Object)
	if !ok || obj.GetUID() == "" {
		return m.own.events
	}
	if name, known := m.places.of(obj.GetUID()); known {
		c, err := m.Cluster(name)
		if err != nil {
			return nil
		}
		return c.events
	}
	m.mu.Lock()
	members := make([]*Cluster, 0, len(m.clusters))
	for _, c := range m.clusters {
		members = append(members, c)
	}
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
