package trace

import (
	"slices"
	"sync"

	oteltrace "go.opentelemetry.io/otel/trace"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/boundedmap"
)

// written identifies a state of an object. It includes kind and name because resourceVersions are
// unique with etcd, but other servers may count per kind.
type written struct {
	cluster         string
	kind            string
	key             client.Key
	resourceVersion string
}

type subject struct {
	cluster, kind string
	key           client.Key
}

// versions records which reconcile wrote which state, and the last known resourceVersion of
// objects. Both are bounded.
type versions struct {
	mu      sync.Mutex
	writers boundedmap.Map[written, uint64]
	last    boundedmap.Map[subject, string]
	spans   boundedmap.Map[uint64, oteltrace.SpanContext] // of reconciles
}

func (v *versions) init() {
	v.writers = boundedmap.New[written, uint64](remembered, nil)
	v.last = boundedmap.New[subject, string](remembered, nil)
	v.spans = boundedmap.New[uint64, oteltrace.SpanContext](remembered, nil)
}

// wrote records the result of a write, and reports whether the resourceVersion changed. before is
// the version before the write; if empty, the last one seen is used.
func (v *versions) wrote(by uint64, s subject, before, after string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if before == "" {
		before, _ = v.last.Get(s)
	}
	v.last.Set(s, after)
	if before == after {
		return false
	}
	if by != 0 {
		v.writers.Set(written{s.cluster, s.kind, s.key, after}, by)
	}
	return true
}

func (v *versions) saw(s subject, resourceVersion string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.Set(s, resourceVersion)
}

// resolve sets By of the causes that earlier reconciles wrote.
func (v *versions) resolve(c Causes, reconcile uint64) Causes {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := slices.Clone(c.list)
	for i := range list {
		o := &list[i]
		if o.By == 0 && o.Kind != "" {
			if by, ok := v.writers.Get(written{o.Cluster, o.Kind, o.Key, o.ResourceVersion}); ok && by < reconcile {
				o.By = by
			}
		}
	}
	return Causes{list: list, more: c.more}
}
