package informer

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reflector"
	"kelson.dev/operator/store"
)

// informer is the copy of one kind in one form.
//
// The reflector's goroutine changes the copy directly and queues a notification for every handler,
// both under one lock, so a new handler sees a state and all changes after it. Because handler
// buffers are unbounded, the reflector never waits for a handler.
type informer struct {
	set   *informers
	id    id
	scope Scope
	objs  *store.Indexer[client.Key, client.Object]
	log   *slog.Logger
	// format is how objs has the objects.
	format format

	synced chan struct{}
	ended  chan struct{}

	// pinned is true if the informer was read from, so that it does not end with its last handler.
	// Set to true under the lock.
	pinned atomic.Bool

	// indexed is true if an index was added. The informer then never ends.
	indexed atomic.Bool

	// several is true once there has been another informer of the kind, so that readers may use the
	// copy of the other informer.
	several atomic.Bool

	// unshown is true once a read has returned a state of the copy that was older than an own
	// write. It is shared by all informers of the kind.
	unshown *atomic.Bool

	mu       sync.Mutex
	ctx      context.Context // nonnil while running
	tasks    sync.WaitGroup  // goroutines that end with ctx; none is added after it ends
	parts    []*part
	handlers []*registration
	over     bool
	isSynced bool
	unmapped failures // why there are no parts yet
	// closed at the next change of the state above or of the copy; nil if there is no waiter
	changed chan struct{}
	written overlay
	applied map[client.Key]applied
	seed    maphash.Seed
}

var _ Informer = (*informer)(nil)

func newInformer(s *informers, name id, scope Scope, form Form) *informer {
	i := &informer{
		set:   s,
		id:    name,
		scope: scope,
		objs: store.NewIndexer(store.Config[client.Key, client.Object]{
			Key:     func(obj client.Object) client.Key { return client.KeyOf(obj) },
			Indexes: map[string]store.Index[client.Object]{namespaceIndex: byNamespace},
		}),
		log:     s.cfg.Log.With("kind", name.kind.String()),
		synced:  make(chan struct{}),
		ended:   make(chan struct{}),
		written: overlay{},
		applied: map[client.Key]applied{},
		seed:    maphash.MakeSeed(),
		unshown: s.unshownOf(name.kind.GroupKind()),
	}
	i.format = format{id: name, log: i.log, form: form, transform: s.transformOf(name.kind.GroupKind())}
	if form == Compact {
		i.format.compact = newCompact()
	}
	return i
}

// namespaceIndex is a name that no other index and no field can have.
const namespaceIndex = "\x00namespace"

func byNamespace(obj client.Object) []string {
	if ns := obj.GetNamespace(); ns != "" {
		return []string{ns}
	}
	return nil
}

// newObject returns an empty object of the informer's kind and form.
func (f *format) newObject() client.Object {
	obj := reflect.New(f.id.form.Elem()).Interface().(client.Object)
	obj.GetObjectKind().SetGroupVersionKind(f.id.kind)
	return obj
}

// current returns the informer, or its successor if it has ended.
func (i *informer) current(pin bool) *informer {
	if i.pinned.Load() {
		return i
	}
	i.mu.Lock()
	over := i.over
	if !over && pin {
		i.pinned.Store(true)
	}
	i.mu.Unlock()
	if !over {
		return i
	}
	next, err := i.set.informerFor(i.format.newObject(), pin)
	if err != nil {
		panic(err) // unreachable: the kind was valid when this informer was created
	}
	return next
}

// run reflects all parts until ctx ends or the informer is unused.
func (i *informer) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	i.mu.Lock()
	i.ctx = ctx
	for _, h := range i.handlers {
		i.tasks.Go(func() { h.run(ctx) })
	}
	i.mu.Unlock()

	if namespaces, err := i.namespaces(ctx); err == nil {
		i.reflect(ctx, namespaces)
		select {
		case <-ctx.Done():
		case <-i.ended:
		}
	}
	i.mu.Lock()
	cancel() // under the lock, so that no task starts afterwards
	i.mu.Unlock()
	i.tasks.Wait()
}

func (i *informer) reflect(ctx context.Context, namespaces []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, namespace := range namespaces {
		p := &part{informer: i, namespace: namespace, renew: make(chan struct{}, 1)}
		i.unmapped = failures{}
		i.parts = append(i.parts, p)
		cfg := reflector.Config[client.Object]{
			Source:    i.source(namespace),
			Sink:      p,
			Pages:     true,
			Transform: i.keep,
			Failed:    p.failed,
			Opened:    p.opened,
			Renew:     p.renew,
		}
		if n == 0 {
			cfg.Resync = i.set.cfg.Resync // one resync covers all parts
		}
		if client.Steady(i.set.cfg.Client) {
			cfg.WatchTimeout = reflector.Forever
		}
		i.tasks.Go(func() { _ = reflector.New(cfg).Run(ctx) }) // it returns only the error of ctx
	}
}

// namespaces returns the namespaces to watch, "" for all. If the scope lists namespaces, it first
// finds out whether the kind is namespaced.
func (i *informer) namespaces(ctx context.Context) ([]string, error) {
	for len(i.scope.Namespaces) > 0 {
		mapping, err := i.set.cfg.Client.Mapper().RESTMapping(i.id.kind.GroupKind(), i.id.kind.Version)
		if err == nil {
			if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
				return i.scope.Namespaces, nil
			}
			break
		}
		i.failed(&i.unmapped, err, "")
		select {
		case <-time.After(mappingRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-i.ended:
			return nil, ErrEnded
		}
	}
	return []string{""}, nil
}

const mappingRetry = 5 * time.Second

func (i *informer) AddHandler(handler Handler) (Registration, error) {
	for {
		i = i.current(false)
		i.mu.Lock()
		if !i.over {
			break
		}
		i.mu.Unlock()
	}
	defer i.mu.Unlock()
	h := newRegistration(i, handler)
	for _, obj := range i.objs.List() {
		h.buffer.push(&notification{kind: added, obj: obj, flag: true})
	}
	if i.isSynced {
		h.buffer.push(&notification{kind: complete})
	}
	i.handlers = append(i.handlers, h)
	if ctx := i.ctx; ctx != nil && ctx.Err() == nil {
		i.tasks.Go(func() { h.run(ctx) })
	}
	return h, nil
}

func (i *informer) removeHandler(h *registration) {
	i.mu.Lock()
	i.handlers = slices.DeleteFunc(i.handlers, func(other *registration) bool { return other == h })
	unused := len(i.handlers) == 0
	i.mu.Unlock()
	if unused {
		i.set.forget(i)
	}
}

func (i *informer) endIfUnused() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.handlers) > 0 || i.pinned.Load() || i.indexed.Load() || i.over {
		return false
	}
	i.over = true
	close(i.ended)
	return true
}

// endNow ends an informer that is used. It is called once, and not after endIfUnused.
func (i *informer) endNow() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	i.pinned.Store(false)
	for _, h := range i.handlers {
		h.once.Do(func() { close(h.removed) })
	}
	i.handlers = nil
	close(i.ended)
}

func (i *informer) AddIndex(name string, values func(obj client.Object) []string) error {
	i = i.current(true)
	i.indexed.Store(true)
	index := values
	if i.format.form == Compact {
		index = func(obj client.Object) []string {
			if obj = i.format.compact.indexed(i, obj); obj == nil {
				return nil
			}
			return values(obj)
		}
	}
	if err := i.objs.AddIndex(name, index); err != nil {
		return fmt.Errorf("informer of %s: %w", i.id.kind, err)
	}
	return nil
}

func (i *informer) Synced() <-chan struct{} { return i.synced }

// list returns the objects of a namespace in the form in which the copy keeps them.
func (i *informer) list(namespace string) []client.Object {
	if namespace == "" {
		return i.objs.List()
	}
	objs, _ := i.objs.ByIndex(namespaceIndex, namespace) // the index exists
	return objs
}

// waitSynced waits for the first complete list. If impatient, it returns errors that only an
// administrator can fix.
func (i *informer) waitSynced(ctx context.Context, impatient bool) error {
	for {
		i.mu.Lock()
		err, synced, changed := i.whyNot(), i.isSynced, i.change()
		i.mu.Unlock()
		if synced {
			return nil
		}
		why := func(cause error) error {
			if err != nil {
				return fmt.Errorf("%w: %s: %w (%w)", ErrNotSynced, i.id.kind, err, cause)
			}
			return fmt.Errorf("%w: %s: %w", ErrNotSynced, i.id.kind, cause)
		}
		if impatient && err != nil && isPermanent(err) {
			return fmt.Errorf("%w: %s: %w", ErrNotSynced, i.id.kind, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return why(context.Cause(ctx))
		case <-i.ended:
			return why(ErrEnded)
		case <-i.set.ended:
			return why(ErrNotRunning)
		}
	}
}

// isPermanent reports whether an error will not disappear without intervention.
func isPermanent(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}

// change returns a channel that is closed at the next change. The caller holds the lock.
func (i *informer) change() <-chan struct{} {
	if i.changed == nil {
		i.changed = make(chan struct{})
	}
	return i.changed
}

// broadcast wakes the waiters for a change. The caller holds the lock.
func (i *informer) broadcast() {
	if i.changed != nil {
		close(i.changed)
		i.changed = nil
	}
}

// failed records an error for waiters, and logs it if it differs from the previous one.
func (i *informer) failed(t *failures, err error, namespace string) {
	err = i.explain(err, namespace)
	i.mu.Lock()
	defer i.mu.Unlock()
	t.note(err)
	i.broadcast()
	if text := err.Error(); t.logged != text {
		t.logged = text
		level := slog.LevelWarn
		if isPermanent(err) {
			level = slog.LevelError
		}
		log := i.log
		if namespace != "" {
			log = log.With("namespace", namespace)
		}
		log.Log(context.Background(), level, "informer cannot read "+i.id.kind.Kind+"; retrying", "err", err)
	}
}

// recovered ends a failure of a part. The caller holds the lock.
func (p *part) recovered() {
	if p.failing.logged != "" {
		p.informer.log.Info("informer can read " + p.informer.id.kind.Kind + " again")
	}
	p.failing = failures{}
}
