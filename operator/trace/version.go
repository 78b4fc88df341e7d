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

// author is who wrote a state: a reconcile of this process, or 0, and the field manager.
type author struct {
	reconcile uint64
	manager   string // empty if unknown
}

// versions records which reconcile wrote which state, and the last known resourceVersion of
// objects. All are bounded.
//
// A write that changes nothing returns the state that another writer made. No response says so, and
// the event with that state may arrive before or after the response. So four rules decide, and each
// is applied as soon as its facts are there: the state is the one that was known before the request
// was sent (wrote); its managedFields show an apply of an earlier second (isOlderThanOthers); it
// was delivered meanwhile, as the change of another manager (wrote); or it is delivered later, as
// such (resolve, corrected).
type versions struct {
	mu        sync.Mutex
	writers   boundedmap.Map[written, author]
	delivered boundedmap.Map[written, string] // the manager of the change, by events
	last      boundedmap.Map[subject, string]
	spans     boundedmap.Map[uint64, oteltrace.SpanContext] // of reconciles
}

func (v *versions) init() {
	v.writers = boundedmap.New[written, author](remembered, nil)
	v.delivered = boundedmap.New[written, string](remembered, nil)
	v.last = boundedmap.New[subject, string](remembered, nil)
	v.spans = boundedmap.New[uint64, oteltrace.SpanContext](remembered, nil)
}

// wrote records the result of a write, and reports whether it changed the object. known are the
// resourceVersions that the object had before the request was sent, as far as they are known.
func (v *versions) wrote(by author, s subject, known []string, after string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.Set(s, after)
	at := written{s.cluster, s.kind, s.key, after}
	if slices.Contains(known, after) || v.othersLocked(at, by.manager) {
		return false
	}
	if by.reconcile != 0 {
		v.writers.Set(at, by)
	}
	return true
}

// othersLocked reports whether an event has shown that another manager made a state.
func (v *versions) othersLocked(at written, manager string) bool {
	other, _ := v.delivered.Get(at)
	return other != "" && manager != "" && other != manager
}

// lastOf returns the last known resourceVersion of an object, or "".
func (v *versions) lastOf(s subject) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	version, _ := v.last.Get(s)
	return version
}

func (v *versions) saw(s subject, resourceVersion string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.Set(s, resourceVersion)
}

// deliver records the state in an event, and the manager that made the change, if it is known.
func (v *versions) deliver(s subject, resourceVersion, manager string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.Set(s, resourceVersion)
	if manager != "" {
		v.delivered.Set(written{s.cluster, s.kind, s.key, resourceVersion}, manager)
	}
}

// corrected returns the writes of a reconcile, in which those are unchanged whose state an event
// has meanwhile shown to be another manager's.
func (v *versions) corrected(writes []Write) []Write {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range writes {
		w := &writes[i]
		at := written{w.Cluster, w.Kind, w.Key, w.ResourceVersion}
		if by, ok := v.writers.Get(at); ok && w.Changed && v.othersLocked(at, by.manager) {
			w.Changed = false
		}
	}
	return writes
}

// resolve sets By of the causes that earlier reconciles wrote.
func (v *versions) resolve(c Causes, reconcile uint64) Causes {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := slices.Clone(c.list)
	for i := range list {
		o := &list[i]
		if o.By == 0 && o.Kind != "" {
			at := written{o.Cluster, o.Kind, o.Key, o.ResourceVersion}
			if by, ok := v.writers.Get(at); ok && by.reconcile < reconcile && !v.othersLocked(at, by.manager) {
				o.By = by.reconcile
			}
		}
	}
	return Causes{list: list, more: c.more}
}
