// Package garbagecollector replaces garbage-collector-controller: it deletes objects whose owners
// are gone, and carries out foreground and orphan deletion.
//
// It works on the store's indexes and events. A cascade takes only the time of its writes: there is
// no discovery interval, no cache to fill and no polling. It follows the specification of owner
// references (Kubernetes' documentation of garbage collection, and its implementation):
//
//   - An object whose owners are all gone is deleted. While at least one owner lives, references to
//     owners that are gone are removed.
//   - An owner with the foregroundDeletion finalizer waits until all dependents that block it are
//     gone.
//   - An owner with the orphan finalizer is first removed from its dependents' references.
//   - An owner is looked up in the dependent's namespace or, for cluster-scoped kinds, by name. An
//     object with the same name but another uid is not the owner.
//   - A reference to a kind that is not served keeps the dependent, because the owner may exist.
//
// Every event queues the objects that it may affect. One worker at a time processes an object, and
// always uses the newest state.
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

// Config configures the collector. Store, Registry and Objects are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects writes and deletes objects, with the full semantics of the API's verbs.
	Objects resource.Objects
	// Workers is how many objects are processed concurrently; 0 means 16.
	Workers int
	Log     *slog.Logger
}

// Collector is the garbage collector of one control plane.
type Collector struct {
	cfg   Config
	queue *workqueue.Queue[item, struct{}]

	mu         sync.Mutex
	unresolved map[item]bool // items with an owner whose kind is not served
}

// item identifies an object by its key and uid: an object created again with the same name is
// another item.
type item struct {
	key store.Key
	uid types.UID
}

func itemOf(obj *store.Object) item { return item{obj.Key, obj.Head.UID} }

// New returns a collector; call Run to start it.
func New(cfg Config) *Collector {
	if cfg.Workers == 0 {
		cfg.Workers = 16
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Collector{cfg: cfg, unresolved: map[item]bool{}}
}

// Run runs the collector until ctx ends or the store is closed.
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

// considerAll queues all objects of a snapshot that may need work. Store.Follow calls it at the
// start and after falling behind.
func (c *Collector) considerAll(sn *store.Snapshot) {
	for name := range sn.Resources() {
		for obj := range sn.Scan(name, "", store.Key{}) {
			if len(obj.Head.Owners) > 0 || waitsForDependents(obj) || orphansDependents(obj) {
				c.queue.Add(itemOf(obj), struct{}{})
			}
		}
	}
}

// definitions is the resource of CustomResourceDefinitions. When one changes, an unresolved kind
// may have become served.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// consider queues the objects that an event affects.
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
		c.addWaitingOwners(sn, e.Prev) // the dependent may no longer block its owner
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
		// with a delay: the kind is served shortly after its definition is written
		c.queue.AddRateLimited(it, struct{}{})
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
				c.cfg.Log.Warn("collect garbage", "resource", it.key.Resource, "namespace", it.key.Namespace, "name", it.key.Name, "err", err)
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
