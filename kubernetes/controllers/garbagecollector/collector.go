// Package garbagecollector is the garbage collector: it deletes what has lost its owners, and carries out foreground and orphan deletion.
//
// It works on the store's indexes and events, so a cascade takes the time of its own writes: there is no discovery interval, no
// cache to warm and no polling. What it decides follows the owner references' specification (Kubernetes' garbage collection page and
// k8s.io/kubernetes' garbage collector):
//
//   - an object all of whose owners are gone is deleted; references to owners that are gone are dropped while another owner lives;
//   - an owner with the foregroundDeletion finalizer waits until the dependents that block it are gone;
//   - an owner with the orphan finalizer has itself removed from its dependents' references first;
//   - an owner is looked up in the dependent's namespace, or in cluster scope. One with another uid under the same name is not the owner;
//   - a reference to a kind that is not served keeps the dependent: nobody can tell whether the owner exists.
//
// Every event leads to keys of objects to look at; a key is worked on by one worker at a time, against the newest state.
package garbagecollector

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/operator/workqueue"
)

// Config is what the collector works on.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects is how it writes: with all the rules of the verbs.
	Objects resource.Objects
	// Workers is how many objects are worked on at once; 0 means 16.
	Workers int
	Log     *slog.Logger
}

// Collector is the garbage collector of one control plane.
type Collector struct {
	cfg   Config
	queue *workqueue.Queue[item, struct{}]

	mu         sync.Mutex
	unresolved map[item]bool // have an owner of a kind that is not served
}

// item is one object, not just its name: an object created anew under the name is another one.
type item struct {
	key store.Key
	uid types.UID
}

func itemOf(obj *store.Object) item { return item{obj.Key, obj.Head.UID} }

// New returns a collector; Run makes it work.
func New(cfg Config) *Collector {
	if cfg.Workers == 0 {
		cfg.Workers = 16
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Collector{cfg: cfg, unresolved: map[item]bool{}}
}

// Run works until ctx ends or the store is closed.
func (c *Collector) Run(ctx context.Context) error {
	c.queue = newQueue()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer c.queue.ShutDown()
	for range c.cfg.Workers {
		workers.Go(func() { c.work(ctx) })
	}
	err := c.cfg.Store.Follow(ctx, "", c.considerAll, func(events []*store.Event) {
		for _, e := range events {
			c.consider(e)
		}
	})
	if errors.Is(err, store.ErrClosed) {
		return nil
	}
	return err
}

// considerAll queues what may have to be done in a state of which nothing is known.
func (c *Collector) considerAll(sn *store.Snapshot) {
	for name := range sn.Resources() {
		for obj := range sn.Scan(name, "", store.Key{}) {
			if len(obj.Head.Owners) > 0 || waitsForDependents(obj) || orphansDependents(obj) {
				c.queue.Add(itemOf(obj), struct{}{})
			}
		}
	}
}

// definitions is the store's name of custom resource definitions: when one changes, a kind may have come.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// consider queues the objects whose fate an event may decide.
func (c *Collector) consider(e *store.Event) {
	sn := c.cfg.Store.Snapshot()
	obj := e.Object
	if e.Type == store.Deleted {
		c.addDependents(sn, obj)
		c.addWaitingOwners(sn, obj)
		return
	}
	if obj.Key.Resource == definitions {
		c.addUnresolved()
	}
	if len(obj.Head.Owners) > 0 || orphansDependents(obj) {
		c.queue.Add(itemOf(obj), struct{}{})
	}
	if waitsForDependents(obj) {
		c.queue.Add(itemOf(obj), struct{}{})
		c.addDependents(sn, obj)
	}
	if e.Prev != nil && len(e.Prev.Head.Owners) > 0 {
		c.addWaitingOwners(sn, e.Prev) // it may block its owner no longer
	}
}

func (c *Collector) addDependents(sn *store.Snapshot, owner *store.Object) {
	for dependent := range sn.Dependents(owner.Head.UID) {
		c.queue.Add(itemOf(dependent), struct{}{})
	}
}

func (c *Collector) addWaitingOwners(sn *store.Snapshot, dependent *store.Object) {
	for _, ref := range dependent.Head.Owners {
		if owner := sn.ByUID(ref.UID); owner != nil && waitsForDependents(owner) {
			c.queue.Add(itemOf(owner), struct{}{})
		}
	}
}

func (c *Collector) addUnresolved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for it := range c.unresolved {
		c.queue.AddRateLimited(it, struct{}{}) // the kind is served a moment after its definition is written
	}
	clear(c.unresolved)
}

func (c *Collector) work(ctx context.Context) {
	for {
		next, err := c.queue.Get(ctx)
		if err != nil {
			return // shut down
		}
		it := next.Key
		switch err := c.collect(asCollector(ctx), it); {
		case err == nil:
			c.queue.Forget(it)
		case errors.Is(err, errUnresolved):
			c.queue.Forget(it)
			c.mu.Lock()
			c.unresolved[it] = true
			c.mu.Unlock()
		case ctx.Err() != nil:
		default:
			if !apierrors.IsConflict(err) {
				c.cfg.Log.Warn("garbage collection", "resource", it.key.Resource, "namespace", it.key.Namespace, "name", it.key.Name, "err", err)
			}
			c.queue.AddRateLimited(it, struct{}{})
		}
		c.queue.Done(next)
	}
}

func hasFinalizer(obj *store.Object, name string) bool {
	return slices.Contains(obj.Head.Finalizers, name)
}

func waitsForDependents(obj *store.Object) bool {
	return !obj.Head.DeletionTimestamp.IsZero() && hasFinalizer(obj, metav1.FinalizerDeleteDependents)
}

func orphansDependents(obj *store.Object) bool {
	return !obj.Head.DeletionTimestamp.IsZero() && hasFinalizer(obj, metav1.FinalizerOrphanDependents)
}

func groupKind(apiVersion, kind string) (schema.GroupKind, string) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return schema.GroupKind{}, ""
	}
	return schema.GroupKind{Group: gv.Group, Kind: kind}, gv.Version
}
