package operator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// liveWatches are the watches that the reconciler of one controller adds and removes with
// Deps.WatchFor. A watch runs while at least one object needs it.
type liveWatches struct {
	manager    *manager.Manager
	controller *controller.Controller // nil until the controller is made
	name       string                 // of the controller
	watching   watching               // without a cluster

	mu       sync.Mutex
	running  map[clusterWatch]*liveWatch
	needs    map[clusterObject][]watchID
	toForget map[*manager.Cluster]bool // additional clusters; forget runs when they are disengaged
}

type clusterWatch struct {
	cluster *manager.Cluster
	id      watchID
}

type clusterObject struct {
	cluster *manager.Cluster
	key     Key
}

type liveWatch struct {
	needed int // number of objects that need it
	end    func()
}

// set replaces the watches that the object of the current reconcile needs with those in opts.
func (l *liveWatches) set(ctx context.Context, opts ...Option) error {
	if err := l.replace(ctx, opts); err != nil {
		return fmt.Errorf("controller %s: watch for the reconciled object: %w", l.name, err)
	}
	return nil
}

func (l *liveWatches) replace(ctx context.Context, opts []Option) error {
	req, ok := reconcile.RequestFrom(ctx)
	if !ok || l.controller == nil {
		return errors.New("no object is being reconciled: call WatchFor in Reconcile, with its context")
	}
	watches, err := onlyWatches(opts)
	if err != nil {
		return err
	}
	cluster, err := l.manager.ClusterFrom(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cluster.Context().Err() != nil {
		return context.Cause(cluster.Context())
	}
	object := clusterObject{cluster, req.NamespacedName}
	before := l.needs[object]
	var now []watchID
	for _, w := range watches {
		if slices.Contains(now, w.id) {
			continue
		}
		if !slices.Contains(before, w.id) {
			if err := l.need(cluster, w); err != nil {
				l.drop(cluster, without(now, before))
				return err
			}
		}
		now = append(now, w.id)
	}
	l.drop(cluster, without(before, now))
	l.note(object, now)
	return nil
}

// onlyWatches returns the watches in opts, and an error if there is anything else.
func onlyWatches(opts []Option) ([]watch, error) {
	s := &settings{}
	for _, opt := range opts {
		opt(s)
	}
	watches := s.watches
	s.watches = nil
	custom := slices.ContainsFunc(watches, func(w watch) bool { return w.id == watchID{} })
	if custom || !reflect.DeepEqual(s, &settings{}) {
		return nil, errors.New("only Owns, OwnsKind, Watches and WatchesKind are possible")
	}
	return watches, nil
}

func without(ids, these []watchID) []watchID {
	return slices.DeleteFunc(slices.Clone(ids), func(id watchID) bool { return slices.Contains(these, id) })
}

// need starts a watch, unless it is running. The caller holds the lock.
func (l *liveWatches) need(cluster *manager.Cluster, w watch) error {
	in := clusterWatch{cluster, w.id}
	if running := l.running[in]; running != nil {
		running.needed++
		return nil
	}
	watching := l.watching
	watching.cluster = cluster
	source, err := w.source(watching)
	if err != nil {
		return err
	}
	stop, err := l.controller.Watch(source)
	if err != nil {
		return err
	}
	end := stop
	if kind, ok := source.(*controller.Kind); ok {
		end = func() {
			stop()
			cluster.Informers().Remove(kind.Object) // needed if the informer was read from
		}
	}
	if l.running == nil {
		l.running, l.needs, l.toForget = map[clusterWatch]*liveWatch{}, map[clusterObject][]watchID{},
			map[*manager.Cluster]bool{}
	}
	if cluster.Name() != "" && !l.toForget[cluster] {
		l.toForget[cluster] = true
		context.AfterFunc(cluster.Context(), func() { l.forget(cluster) })
	}
	l.running[in] = &liveWatch{needed: 1, end: end}
	return nil
}

// drop ends the watches that no object still needs. The caller holds the lock.
func (l *liveWatches) drop(cluster *manager.Cluster, ids []watchID) {
	for _, id := range ids {
		in := clusterWatch{cluster, id}
		running := l.running[in]
		if running.needed--; running.needed == 0 {
			delete(l.running, in)
			running.end()
		}
	}
}

func (l *liveWatches) note(object clusterObject, ids []watchID) {
	if len(ids) == 0 {
		delete(l.needs, object)
	} else {
		l.needs[object] = ids
	}
}

// deleted drops the watches of an object that no longer exists.
func (l *liveWatches) deleted(cluster *manager.Cluster, key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	object := clusterObject{cluster, key}
	l.drop(cluster, l.needs[object])
	delete(l.needs, object)
}

// noteDeletions returns a predicate that accepts every event about the controller's own kind, and
// drops the watches of deleted objects. With shards, this replica may not reconcile such an object
// again.
func (l *liveWatches) noteDeletions(cluster *manager.Cluster, kind Object) Predicate {
	return func(e Event) bool {
		if e.Type == trace.Delete && !isCached(cluster, kind, client.KeyOf(e.Object)) {
			l.deleted(cluster, client.KeyOf(e.Object))
		}
		return true
	}
}

// isCached reports whether the informers have an object now: a new object may have the name of a
// deleted one, and may already need watches.
func isCached(cluster *manager.Cluster, kind Object, key Key) bool {
	inf, err := cluster.Informers().For(kind)
	if err != nil {
		return false
	}
	_, exists := inf.Get(key)
	return exists
}

// forget drops what is recorded about a disengaged cluster, whose sources have ended.
func (l *liveWatches) forget(cluster *manager.Cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.toForget, cluster)
	for in := range l.running {
		if in.cluster == cluster {
			delete(l.running, in)
		}
	}
	for object := range l.needs {
		if object.cluster == cluster {
			delete(l.needs, object)
		}
	}
}
