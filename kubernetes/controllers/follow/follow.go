// Package follow is what controllers have in common that are driven by the store's events: a queue of keys and one worker.
//
//	store ──▶ cursor per resource ──Keys──▶ queue ──▶ Sync (one at a time)
//	                                          ▲           │ error: again, later and later
//	                                          └───────────┘ a duration: again, then
//
// What is there at the start counts as written. A key that is added while it is being worked on is worked on again afterwards, so
// Sync reads a snapshot of its own and never needs to know what happened. There is no polling and no periodic resync.
//
//	return follow.Run(ctx, follow.Config[string]{
//		Store: st, Resources: []string{"namespaces"},
//		Keys:  func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
//		Sync:  c.sync,
//	})
package follow

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/apiserver/store"
	"kelson.dev/operator/workqueue"
)

// Config is a controller.
type Config[K comparable] struct {
	// Name is the controller's in the log.
	Name  string
	Store *store.Store
	// Resources, as in [store.Key], are those whose events matter; "" is all.
	Resources []string
	// Keys adds the keys that concern an object which is there, was written, or (in its last state) was deleted. It may be called by
	// several goroutines and should be quick.
	Keys func(obj *store.Object, add func(K))
	// Event, if not nil, is called for events instead of Keys, which is then called only for what is there.
	Event func(e *store.Event, add func(K))
	// Sync does what is to be done for a key. It is called again when the duration has passed, unless that is 0, and after an error.
	Sync func(ctx context.Context, key K) (again time.Duration, err error)
	// Log gets errors; nil discards them.
	Log *slog.Logger
}

// Run works until ctx ends or the store is closed.
func Run[K comparable](ctx context.Context, cfg Config[K]) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := workqueue.New(workqueue.Config[K, struct{}]{})
	var parts sync.WaitGroup
	for _, resource := range cfg.Resources {
		parts.Go(func() {
			err := watch(ctx, cfg, resource, func(key K) { queue.Add(key, struct{}{}) })
			cancel(err) // ErrClosed, too, ends the others
		})
	}
	parts.Go(func() { work(ctx, cfg, queue) })
	<-ctx.Done()
	queue.ShutDown()
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, store.ErrClosed) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// watch adds the keys of everything in a resource, and then those of its events.
func watch[K comparable](ctx context.Context, cfg Config[K], resource string, add func(K)) error {
	begin := func(sn *store.Snapshot, resource string) {
		for obj := range sn.Scan(resource, "", store.Key{}) {
			cfg.Keys(obj, add)
		}
	}
	return cfg.Store.Follow(ctx, resource, func(sn *store.Snapshot) {
		if resource != "" {
			begin(sn, resource)
			return
		}
		for each := range sn.Resources() {
			begin(sn, each)
		}
	}, func(events []*store.Event) {
		for _, e := range events {
			if cfg.Event != nil {
				cfg.Event(e, add)
			} else {
				cfg.Keys(e.Object, add)
			}
		}
	})
}

func work[K comparable](ctx context.Context, cfg Config[K], queue *workqueue.Queue[K, struct{}]) {
	for {
		next, err := queue.Get(ctx)
		if err != nil {
			return // shut down
		}
		again, err := cfg.Sync(ctx, next.Key)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !apierrors.IsConflict(err) {
				cfg.Log.Warn("a controller failed and tries again", "controller", cfg.Name, "key", next.Key, "err", err)
			}
			queue.AddRateLimited(next.Key, struct{}{})
		default:
			queue.Forget(next.Key)
			if again > 0 {
				queue.AddAfter(next.Key, struct{}{}, again)
			}
		}
		queue.Done(next)
	}
}
