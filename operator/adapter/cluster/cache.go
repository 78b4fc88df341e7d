package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
)

// Config configures NewCache beyond controller-runtime's options. The zero value is ready for use.
type Config struct {
	// OwnHTTPClient makes the library's client send its requests through cache.Options.HTTPClient.
	// By default it creates its own transports, because those of controller-runtime's default
	// client are HTTP/2 connections, which cost more (see client.Config).
	OwnHTTPClient bool
	// Deliver, if not nil, is called instead of each call of an event handler, and must make the
	// call, in the same goroutine.
	Deliver func(kind string, e controller.Event, call func())
}

// Cache is a cache of one server's objects. It implements controller-runtime's cache.Cache. All
// methods are safe for concurrent use.
type Cache struct {
	cfg    Config
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	live   client.Client // reads from and writes to the server
	source client.Client // what informers read from: live, which reports errors of watches
	log    *slog.Logger

	kinds  map[schema.GroupVersionKind]placement // with their own settings
	others placement
	leaves []*leaf
	// failOnMissingInformer makes reads of kinds without an informer fail instead of starting one.
	failOnMissingInformer bool

	started chan struct{} // closed by Start

	mu        sync.Mutex
	isStarted bool
	stopped   bool
	informers map[form]*Informer
}

var _ cache.Cache = (*Cache)(nil)

// form identifies an informer.
type form struct {
	kind schema.GroupVersionKind
	typ  reflect.Type
}

// NewCache returns a cache with controller-runtime's options. It sends no requests before Start,
// except that a ByObject option needs discovery.
func NewCache(config *rest.Config, o cache.Options, own Config) (*Cache, error) {
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.Mapper == nil {
		var err error
		if o.Mapper, err = newMapper(config, o.HTTPClient); err != nil {
			return nil, fmt.Errorf("new cache: %w", err)
		}
	}
	c := &Cache{
		cfg: own, scheme: o.Scheme, mapper: o.Mapper, failOnMissingInformer: o.ReaderFailOnMissingInformer,
		log:       slog.New(logr.ToSlogHandler(log.Log.WithName("cache"))),
		kinds:     map[schema.GroupVersionKind]placement{},
		started:   make(chan struct{}),
		informers: map[form]*Informer{},
	}
	httpClient := o.HTTPClient
	if !own.OwnHTTPClient {
		httpClient = nil
	}
	live, err := newLive(config, httpClient, o.Scheme, o.Mapper, c.log)
	if err != nil {
		return nil, fmt.Errorf("new cache: %w", err)
	}
	c.live, c.source = live, live
	if o.DefaultWatchErrorHandler != nil {
		c.source = &reporting{live, o.DefaultWatchErrorHandler}
	}
	if err := c.plan(o); err != nil {
		return nil, fmt.Errorf("new cache: %w", err)
	}
	return c, nil
}

// Live returns the client that reads from and writes to the server. Writes through it are not
// visible to reads of the cache until the watch delivers them.
func (c *Cache) Live() client.Client { return c.live }

// Start runs the informers until ctx ends and all their goroutines have returned. It can be called
// only once.
func (c *Cache) Start(ctx context.Context) error {
	c.mu.Lock()
	if c.isStarted {
		c.mu.Unlock()
		return errors.New("start cache: already started")
	}
	c.isStarted = true
	close(c.started)
	c.mu.Unlock()
	var running errgroup.Group
	for _, l := range c.leaves {
		running.Go(func() error { return l.informers.Run(ctx) })
	}
	<-ctx.Done()
	c.mu.Lock()
	c.stopped = true
	for _, i := range c.informers {
		i.stop()
	}
	c.mu.Unlock()
	return running.Wait()
}

// NeedLeaderElection tells controller-runtime's manager to start the cache on every replica.
func (c *Cache) NeedLeaderElection() bool { return false }

// WaitForCacheSync waits until the cache is started and all its current informers are synced. It
// returns false if ctx ends first.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	for _, i := range c.all() {
		if !i.waitSynced(ctx) {
			return false
		}
	}
	return true
}

// CatchUp waits until all current informers have everything that the server had when it was called.
func (c *Cache) CatchUp(ctx context.Context) error {
	for _, l := range c.leaves {
		if err := l.informers.CatchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) all() []*Informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.informers))
}

func (c *Cache) placement(kind schema.GroupVersionKind) placement {
	if p, ok := c.kinds[kind]; ok {
		return p
	}
	return c.others
}

// placements returns where the versions of a kind are, ending with the given version.
func (c *Cache) placements(kind schema.GroupVersionKind) []placement {
	if len(c.kinds) == 0 {
		return []placement{c.others}
	}
	all := []placement{c.others}
	for other, p := range c.kinds {
		if other != kind && other.GroupKind() == kind.GroupKind() {
			all = append(all, p)
		}
	}
	if p, ok := c.kinds[kind]; ok {
		return append(all, p)
	}
	return append(all[1:], c.others)
}

// informer returns the informer of an object's kind and type, and creates it if necessary.
func (c *Cache) informer(obj client.Object, mayCreate bool) (*Informer, error) {
	kind, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return nil, err
	}
	name := form{kind, reflect.TypeOf(obj)}
	c.mu.Lock()
	i := c.informers[name]
	c.mu.Unlock()
	switch {
	case i != nil:
		return i, nil
	case !mayCreate:
		return nil, &cache.ErrResourceNotCached{GVK: kind}
	}
	namespaced, err := apiutil.IsGVKNamespaced(kind, c.mapper)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.informers[name]; i != nil {
		return i, nil
	}
	if i, err = c.newInformer(kind, namespaced, obj); err != nil {
		return nil, err
	}
	if c.stopped {
		i.stop()
	}
	c.informers[name] = i
	return i, nil
}
