package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Informer is the informer of one kind and object type. It implements controller-runtime's
// cache.Informer and, for programs that read the store, client-go's SharedIndexInformer. With
// several leaves, it delivers the events of all of them.
type Informer struct {
	cache      *Cache
	kind       schema.GroupVersionKind
	namespaced bool
	placement  placement
	prototype  client.Object
	parts      map[*leaf]informer.Informer
	stopped    chan struct{}
	stop       func() // closes stopped

	indexMu sync.Mutex
	indexes toolscache.Indexers // of AddIndexers
}

var _ cache.Informer = (*Informer)(nil)

// newInformer creates the informers of a kind in its leaves. The caller holds the lock.
func (c *Cache) newInformer(kind schema.GroupVersionKind, namespaced bool, obj client.Object) (*Informer, error) {
	prototype := emptyLike(obj)
	prototype.GetObjectKind().SetGroupVersionKind(kind)
	i := &Informer{
		cache: c, kind: kind, namespaced: namespaced, placement: c.placement(kind), prototype: prototype,
		parts: map[*leaf]informer.Informer{}, stopped: make(chan struct{}),
	}
	i.stop = sync.OnceFunc(func() { close(i.stopped) })
	for _, l := range i.leaves() {
		part, err := l.informers.For(prototype)
		if err != nil {
			return nil, err
		}
		part.Get(client.Key{}) // keeps the informer when its last handler is removed
		i.parts[l] = part
	}
	return i, nil
}

func (i *Informer) leaves() []*leaf { return i.placement.leaves(i.namespaced) }

// GetInformer returns the informer of an object's kind and type. If the cache has started, it waits
// until the informer is synced, unless the options say otherwise.
func (c *Cache) GetInformer(ctx context.Context, obj crclient.Object,
	opts ...cache.InformerGetOption) (cache.Informer, error) {
	i, err := c.informer(obj, true)
	if err != nil {
		return nil, err
	}
	var o cache.InformerGetOptions
	for _, opt := range opts {
		opt(&o)
	}
	if c.hasStarted() && (o.BlockUntilSynced == nil || *o.BlockUntilSynced) && !i.waitSynced(ctx) {
		return nil, errors.NewTimeoutError(fmt.Sprintf("failed waiting for %T Informer to sync", obj), 0)
	}
	return i, nil
}

// GetInformerForKind returns the informer of a kind's Go type.
func (c *Cache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind,
	opts ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := c.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	typed, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("informer of %s: type %T has no metadata", kind, obj)
	}
	return c.GetInformer(ctx, typed, opts...)
}

// RemoveInformer ends the informer of an object's kind and type. Its handlers are no longer called.
// The next read of the kind starts a new informer.
func (c *Cache) RemoveInformer(_ context.Context, obj crclient.Object) error {
	i, err := c.informer(obj, false)
	if err != nil {
		if _, none := err.(*cache.ErrResourceNotCached); none {
			return nil
		}
		return err
	}
	c.mu.Lock()
	for name, other := range c.informers {
		if other == i {
			delete(c.informers, name)
		}
	}
	c.mu.Unlock()
	i.stop()
	for l := range i.parts {
		l.informers.Remove(i.prototype, informer.InUse)
	}
	return nil
}

// IndexField adds an index of a field, for field selectors of lists. Lists can also select by a
// field without an index. An index makes that faster, or defines the value of the field.
func (c *Cache) IndexField(_ context.Context, obj crclient.Object, field string, extract crclient.IndexerFunc) error {
	i, err := c.informer(obj, true)
	if err != nil {
		return err
	}
	for _, part := range i.parts {
		if err := part.AddIndex(field, func(obj client.Object) []string { return extract(obj) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) hasStarted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isStarted
}

func (i *Informer) waitSynced(ctx context.Context) bool {
	for _, part := range i.parts {
		select {
		case <-part.Synced():
		case <-i.stopped:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// HasSynced reports whether the informer has the first complete list.
func (i *Informer) HasSynced() bool {
	for _, part := range i.parts {
		if !isClosed(part.Synced()) {
			return false
		}
	}
	return true
}

// HasSyncedChecker completes when the informer has the first complete list.
func (i *Informer) HasSyncedChecker() toolscache.DoneChecker {
	var all []<-chan struct{}
	for _, part := range i.parts {
		all = append(all, part.Synced())
	}
	return i.newChecker("cache of "+i.kind.String(), all)
}

// IsStopped reports whether the informer was removed or its cache has ended.
func (i *Informer) IsStopped() bool { return isClosed(i.stopped) }

// AddIndexers adds index functions. An index function that fails panics, as in client-go.
func (i *Informer) AddIndexers(indexers toolscache.Indexers) error {
	for name, index := range indexers {
		i.indexMu.Lock()
		if _, exists := i.indexes[name]; exists || name == toolscache.NamespaceIndex {
			i.indexMu.Unlock()
			return fmt.Errorf("indexer conflict: %s", name)
		}
		if i.indexes == nil {
			i.indexes = toolscache.Indexers{}
		}
		i.indexes[name] = index
		i.indexMu.Unlock()
		for _, part := range i.parts {
			err := part.AddIndex(name, func(obj client.Object) []string {
				values, err := index(obj)
				if err != nil {
					panic(fmt.Errorf("index %q of %s: %w", name, client.KeyOf(obj), err))
				}
				return values
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// AddEventHandler adds a handler that is called for each change, and for all objects in each resync
// of the cache.
func (i *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (
	toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with its own resync period; zero means none.
func (i *Informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler,
	period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler. The option Logger is not used: handlers log nothing.
func (i *Informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler,
	o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.IsStopped() {
		return nil, fmt.Errorf("handler %T was not added: the informer of %s has stopped", h, i.kind)
	}
	r := &registration{informer: i, ended: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.ended) })
	handler := &handler{to: h, kind: i.kind.Kind, deliver: i.cache.cfg.Deliver, ownResync: o.ResyncPeriod != nil}
	for _, part := range i.parts {
		each, err := part.AddHandler(handler)
		if err != nil {
			r.remove()
			return nil, err
		}
		r.parts = append(r.parts, each)
	}
	if o.ResyncPeriod != nil && *o.ResyncPeriod > 0 {
		go r.resync(handler, *o.ResyncPeriod)
	}
	return r, nil
}

// RemoveEventHandler removes a handler. It can be called several times.
func (i *Informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok || r.informer.kind != i.kind {
		return fmt.Errorf("remove handler: %T is not a registration of the informer of %s", handle, i.kind)
	}
	r.remove()
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
