package trace

import (
	"slices"
	"sync"

	oteltrace "go.opentelemetry.io/otel/trace"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/recent"
)

// written is what identifies a state of an object. Kinds and names are told apart although one resourceVersion is one write with
// etcd: other servers may count per kind.
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

// versions remembers which reconcile wrote which state, and the last known resourceVersion of objects. Both are bounded.
type versions struct {
	mu      sync.Mutex
	writers recent.Map[written, uint64]
	last    recent.Map[subject, string]
	spans   recent.Map[uint64, oteltrace.SpanContext] // of reconciles
}

// wrote notes the result of a write and says whether it changed anything: whether the resourceVersion is another than before, which is
// the one given, or else the last that was seen.
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

// resolve fills in who made the changes that caused a reconcile: earlier ones.
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
