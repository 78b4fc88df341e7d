// Package garbagecollector replaces garbage-collector-controller: it deletes objects whose owners
// no longer exist, and implements foreground and orphan deletion.
//
// It works on the store's indexes and events. A cascade takes only the time of its writes: there is
// no discovery interval, no cache to fill and no polling. It follows the specification of owner
// references (Kubernetes' documentation of garbage collection, and its implementation):
//
//   - An object whose owners are all gone is deleted. While at least one owner exists, references
//     to owners that do not exist are removed.
//   - An owner with the foregroundDeletion finalizer waits until all dependents that block it are
//     gone.
//   - An owner with the orphan finalizer is first removed from its dependents' references.
//   - An owner is looked up in the dependent's namespace or, for cluster-scoped kinds, by name. An
//     object with the same name but another uid is not the owner. If the owner is in another
//     namespace, the Event OwnerRefInvalidNamespace says so.
//   - A reference to a kind that is not served keeps the dependent, because the owner may exist.
//
// Objects and owners may also be in other API servers, to which APIServices refer. While such
// servers exist, the collector follows the metadata of their objects. A second queue with its own
// workers processes the items that need answers from these servers, so that a slow server delays no
// other work. An owner in a server that does not answer counts as existing.
//
// Every event queues the objects that it may affect. One worker at a time processes an object, and
// always uses the newest state. The collector writes through the API, so that admission and audit
// apply; it repeats a deletion that is denied, with backoff.
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
	"kelson.dev/kubernetes/controllers/aggregated"
	"kelson.dev/kubernetes/controllers/objects"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
	"kelson.dev/operator/workqueue"
)

// Config configures the collector. Store, Registry, Objects and Client are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects writes and deletes objects.
	Objects *objects.Client
	// Client records Events.
	Client client.Client
	// Servers are the API servers behind this one; nil means that there are none.
	Servers *aggregated.Servers
	// Workers is how many objects are processed concurrently; 0 means 16.
	Workers int
	Log     *slog.Logger
}

// Collector is the garbage collector of one control plane.
type Collector struct {
	cfg    Config
	events *events.Broadcaster
	queue  *workqueue.Queue[item, struct{}]
	remote *workqueue.Queue[item, struct{}] // items that need answers of other servers
	mirror *mirror

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
	c := &Collector{cfg: cfg, events: events.New(events.Config{Client: cfg.Client, Log: cfg.Log}),
		unresolved: map[item]bool{}}
	c.mirror = newMirror(cfg.Servers, cfg.Log, c.consider)
	return c
}

// Run runs the collector until ctx ends or the store is closed.
func (c *Collector) Run(ctx context.Context) error {
	c.queue, c.remote = newQueue(), newQueue()
	ctx, cancel := context.WithCancel(ctx)
	defer c.mirror.tasks.Wait()
	for _, queue := range []*workqueue.Queue[item, struct{}]{c.queue, c.remote} {
		stop := queue.Start(c.cfg.Workers, func(next workqueue.Item[item, struct{}]) { c.work(ctx, queue, next.Key) })
		defer stop()
		defer queue.ShutDown()
	}
	var following sync.WaitGroup
	following.Go(func() { _ = c.events.Run(ctx) })
	following.Go(func() {
		c.cfg.Servers.Follow(ctx, func() {
			c.mirror.adjust(ctx)
			c.addUnresolved()
		})
	})
	defer following.Wait()
	subscription := c.cfg.Store.Subscribe([]string{""}, c.considerAll, c.consider)
	defer subscription.End()
	defer cancel()
	select {
	case <-ctx.Done():
	case <-subscription.Closed():
	}
	return nil
}

// considerAll queues all objects of a snapshot that may need work. The subscription calls it at the
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
	obj := e.Object
	if e.Prev != nil && e.Type == store.Modified && obj.Key.Resource != definitions &&
		obj.Head.DeletionTimestamp.IsZero() && slices.Equal(obj.Head.Owners, e.Prev.Head.Owners) {
		return // most writes: statuses of pods, renewals of Leases
	}
	g := c.graph()
	if e.Type == store.Deleted {
		c.addDependents(g, obj)
		c.addWaitingOwners(g, obj)
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
		c.addDependents(g, obj)
	}
	if e.Prev != nil && len(e.Prev.Head.Owners) > 0 {
		c.addWaitingOwners(g, e.Prev) // the dependent may no longer block its owner
	}
}

func (c *Collector) addDependents(g graph, owner *store.Object) {
	for dependent := range g.dependents(owner.Head.UID) {
		c.queue.Add(itemOf(dependent), struct{}{})
	}
}

func (c *Collector) addWaitingOwners(g graph, dependent *store.Object) {
	for _, ref := range dependent.Head.Owners {
		if owner := g.byUID(ref.UID); owner != nil && waitsForDependents(owner) {
			c.queue.Add(itemOf(owner), struct{}{})
		}
	}
}

func (c *Collector) addUnresolved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for target := range c.unresolved {
		// with a delay: the kind is served shortly after its definition is written
		c.queue.AddRateLimited(target, struct{}{})
	}
	clear(c.unresolved)
}

func (c *Collector) work(ctx context.Context, queue *workqueue.Queue[item, struct{}], target item) {
	if ctx.Err() != nil {
		return
	}
	if queue == c.queue && c.asksServers(target) {
		c.remote.Add(target, struct{}{})
		queue.Forget(target)
		return
	}
	switch err := c.collect(ctx, target); {
	case err == nil:
		queue.Forget(target)
	case errors.Is(err, errUnresolved):
		queue.Forget(target)
		c.mu.Lock()
		c.unresolved[target] = true
		c.mu.Unlock()
	case ctx.Err() != nil:
	default:
		if !apierrors.IsConflict(err) {
			c.cfg.Log.Warn("collect garbage", "resource", target.key.Resource, "namespace", target.key.Namespace,
				"name", target.key.Name, "err", err)
		}
		queue.AddRateLimited(target, struct{}{})
	}
}

// graph returns the newest state.
func (c *Collector) graph() graph {
	g := graph{sn: c.cfg.Store.Snapshot()}
	if c.cfg.Servers.Any() {
		g.mirror = c.mirror
	}
	return g
}

// asksServers reports whether processing an item may need an answer of another server.
func (c *Collector) asksServers(target item) bool {
	if !c.cfg.Servers.Any() {
		return false
	}
	if isRemote(target.key.Resource) {
		return true
	}
	g := c.graph()
	obj := g.get(target.key)
	if obj == nil {
		return false
	}
	for _, ref := range obj.Head.Owners {
		gk, version := groupKind(ref.APIVersion, ref.Kind)
		if c.cfg.Servers.Serve(gk.WithVersion(version).GroupVersion()) {
			return true
		}
	}
	return orphansDependents(obj) && len(g.mirror.dependentsOf(obj.Head.UID)) > 0
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
