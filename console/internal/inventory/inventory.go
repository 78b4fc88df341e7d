// Package inventory keeps a summary of every object of a cluster while a view needs it: its owners,
// the conditions for which it waits, and the objects to which it refers.
//
// A summary has a few hundred bytes, regardless of the size of the object. The inventory lists in
// pages and watches, one watch per resource, and stops when no view has used it for a while.
package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
)

// linger is how long the inventory continues to watch after its last use.
const linger = 30 * time.Second

// rescan is the interval between two searches for new kinds.
const rescan = 3 * time.Second

// skipped lists resources that change all the time, or that repeat the content of others.
var skipped = map[string]bool{
	"leases.coordination.k8s.io": true, "events.events.k8s.io": true, "componentstatuses": true,
	"endpointslices.discovery.k8s.io": true, "endpoints": true, "controllerrevisions.apps": true,
}

// Inventory is safe for concurrent use.
type Inventory struct {
	cluster *cluster.Cluster
	changed *web.Signal

	mu       sync.Mutex
	users    int
	stop     context.CancelFunc // nil: not running
	idle     *time.Timer
	kinds    map[string]cluster.Kind
	objects  map[string]map[string]*Object // by resource, and by namespace/name
	synced   map[string]bool
	failures map[string]*web.Error // by resource
	since    map[string]time.Time  // of the failures
	events   map[string]Event      // by UID
	closed   bool
}

// New returns an inventory that watches nothing yet.
func New(c *cluster.Cluster) *Inventory {
	return &Inventory{cluster: c, changed: web.NewSignal()}
}

// Use starts to watch and returns a function that ends the use.
func (v *Inventory) Use() (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.users++
	if v.idle != nil {
		v.idle.Stop()
		v.idle = nil
	}
	if v.stop == nil && !v.closed {
		ctx, stop := context.WithCancel(context.Background())
		v.stop = stop
		v.kinds, v.objects, v.synced = map[string]cluster.Kind{}, map[string]map[string]*Object{}, map[string]bool{}
		v.failures, v.since, v.events = map[string]*web.Error{}, map[string]time.Time{}, map[string]Event{}
		go v.run(ctx)
	}
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.users--; v.users == 0 && !v.closed {
			v.idle = time.AfterFunc(linger, v.rest)
		}
	})
}

func (v *Inventory) rest() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users == 0 && v.stop != nil {
		v.stop()
		v.stop = nil
	}
}

// Close ends all watches. Later uses see no objects.
func (v *Inventory) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	if v.idle != nil {
		v.idle.Stop()
	}
	if v.stop != nil {
		v.stop()
		v.stop = nil
	}
}

// Changed returns a channel that is closed at the next change.
func (v *Inventory) Changed() <-chan struct{} { return v.changed.Wait() }

// run follows all kinds until ctx ends.
func (v *Inventory) run(ctx context.Context) {
	following := map[string]context.CancelFunc{}
	for {
		kinds, err := v.cluster.Kinds()
		if err == nil {
			served := map[string]bool{}
			for _, k := range kinds {
				served[k.Name()] = true
				if following[k.Name()] == nil && k.Can("watch") && !skipped[k.Name()] {
					one, cancel := context.WithCancel(ctx)
					following[k.Name()] = cancel
					go v.follow(one, k)
				}
			}
			for name, cancel := range following {
				if !served[name] {
					cancel()
					delete(following, name)
					v.forget(ctx, name)
				}
			}
		}
		select {
		case <-ctx.Done():
			for _, cancel := range following {
				cancel()
			}
			return
		case <-time.After(rescan):
		}
	}
}

func (v *Inventory) forget(ctx context.Context, resource string) {
	v.update(ctx, func() {
		delete(v.objects, resource)
		delete(v.kinds, resource)
		delete(v.synced, resource)
		delete(v.failures, resource)
		delete(v.since, resource)
	})
}

// update changes the inventory, unless ctx, which belongs to a run, has ended.
func (v *Inventory) update(ctx context.Context, change func()) {
	v.mu.Lock()
	if ctx.Err() == nil {
		change()
	}
	v.mu.Unlock()
	v.changed.Notify()
}

// follow follows one kind, and tries again after errors.
func (v *Inventory) follow(ctx context.Context, kind cluster.Kind) {
	name := kind.Name()
	v.update(ctx, func() { v.kinds[name] = kind })
	v.cluster.FollowReadable(ctx, kind, func(namespace string) cluster.Receiver {
		return v.receiver(ctx, kind, namespace)
	}, func(err error) {
		v.update(ctx, func() {
			if v.failures[name] == nil {
				v.since[name] = time.Now()
			}
			v.failures[name], v.synced[name] = web.AsError(err), true
		})
	})
}

// receiver receives the objects of a kind in a namespace, or in all of them if it is empty.
func (v *Inventory) receiver(ctx context.Context, kind cluster.Kind, namespace string) cluster.Receiver {
	name := kind.Name()
	return cluster.Receiver{
		Page: func(list json.RawMessage, first, last bool) error {
			var l struct{ Items []json.RawMessage }
			if err := json.Unmarshal(list, &l); err != nil {
				return err
			}
			var listed []*Object
			var events []Event
			for _, item := range l.Items {
				if name == "events" {
					if e, err := readEvent(item); err == nil {
						events = append(events, e)
					}
				} else if o, err := summarize(kind, item); err == nil {
					listed = append(listed, o)
				}
			}
			v.update(ctx, func() {
				v.addEvents(events...)
				if first && (namespace == "" || v.objects[name] == nil) {
					v.objects[name] = map[string]*Object{}
				} else if first {
					maps.DeleteFunc(v.objects[name], func(_ string, o *Object) bool { return o.Namespace == namespace })
				}
				for _, o := range listed {
					v.objects[name][o.key()] = o
				}
				delete(v.failures, name)
				if last {
					v.synced[name] = true
				}
			})
			return nil
		},
		Event: func(t watch.EventType, data json.RawMessage) error {
			if name == "events" {
				if e, err := readEvent(data); err == nil && t != watch.Deleted {
					v.update(ctx, func() { v.addEvents(e) })
				}
				return nil
			}
			o, err := summarize(kind, data)
			if err != nil {
				return err
			}
			v.update(ctx, func() {
				if t == watch.Deleted {
					delete(v.objects[name], o.key())
				} else {
					v.objects[name][o.key()] = o
				}
			})
			return nil
		},
	}
}

// Events returns the Events that are kept, in any order, and the error if they can't be listed.
func (v *Inventory) Events() (all []Event, failure string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.trimEvents()
	if err := v.failures["events"]; err != nil {
		failure = err.Message
	}
	return slices.Collect(maps.Values(v.events)), failure
}

// Snapshot is a state of the inventory. Its objects must not be modified.
type Snapshot struct {
	Objects []*Object
	Events  []Event // the newest first
	// Synced is false while the first lists are read.
	Synced bool
	// Failures are the kinds that can't be listed, sorted by name.
	Failures []Failure
	// Unreachable means that no kind can be listed, for other reasons than the user's rights. The
	// objects are those of an earlier time.
	Unreachable bool
	// Known is the time of the objects if the cluster is unreachable.
	Known time.Time
}

// Failure is something that can't be read, and the reason.
type Failure struct {
	What string `json:"what"` // for a kind, the name of its resource
	Why  string `json:"why"`
}

// Old says why the objects are of an earlier time, and of which; nothing if they are not.
type Old struct {
	Unreachable string    `json:"unreachable,omitempty"`
	Known       time.Time `json:"known,omitzero"`
}

// Old reports whether the state is old.
func (s Snapshot) Old() Old {
	if !s.Unreachable || len(s.Failures) == 0 {
		return Old{}
	}
	old := Old{Unreachable: s.Failures[0].Why}
	if len(s.Objects) > 0 {
		old.Known = s.Known.UTC()
	}
	return old
}

// Snapshot returns the current state.
func (v *Inventory) Snapshot() Snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	lost := 0
	s := Snapshot{Synced: len(v.kinds) > 0}
	for name := range v.kinds {
		s.Synced = s.Synced && v.synced[name]
		if err := v.failures[name]; err != nil {
			s.Failures = append(s.Failures, Failure{name, err.Message})
			if err.Code != http.StatusForbidden {
				lost++
				if at := v.since[name]; at.After(s.Known) {
					s.Known = at
				}
			}
		}
	}
	s.Unreachable = lost > 0 && lost == len(v.kinds)
	slices.SortFunc(s.Failures, func(a, b Failure) int { return strings.Compare(a.What, b.What) })
	for _, objects := range v.objects {
		for _, o := range objects {
			s.Objects = append(s.Objects, o)
		}
	}
	v.trimEvents()
	for _, e := range v.events {
		s.Events = append(s.Events, e)
	}
	slices.SortFunc(s.Objects, func(a, b *Object) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(s.Events, func(a, b Event) int {
		return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.UID, b.UID))
	})
	return s
}
