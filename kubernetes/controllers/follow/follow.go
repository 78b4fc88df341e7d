// Package follow runs controllers that react to the store's events: a queue of keys and one worker.
//
//	store ──▶ cursor per resource ──Keys──▶ queue ──▶ Sync (one at a time)
//	                                          ▲           │ error: again, with backoff
//	                                          └───────────┘ duration: again, after it
//
// Existing objects are queued at the start. A key that is added while Sync runs for it is synced
// again afterwards. So Sync can read its own snapshot and does not need the event. There is no
// polling and no periodic resync.
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

// Config configures a controller. Store, Resources, Keys and Sync are required.
type Config[K comparable] struct {
	// Name is the controller's name in log records.
	Name  string
	Store *store.Store
	// Resources are the resources to follow, named as in [store.Key]; "" means all.
	Resources []string
	// Keys adds the keys that are affected by an object that exists, was written, or (in its last
	// state) was deleted. Several goroutines call it concurrently; it should be quick.
	Keys func(obj *store.Object, add func(K))
	// Event, if not nil, is called for events instead of Keys. Keys is then called only for the
	// objects that exist at the start.
	Event func(e *store.Event, add func(K))
	// Sync reconciles a key. It is called again after an error, with backoff, and after the
	// returned duration unless that is 0.
	Sync func(ctx context.Context, key K) (again time.Duration, err error)
	// Log receives errors; nil discards them.
	Log *slog.Logger
}

// Run runs the controller until ctx ends or the store is closed. Only errors that end a watch are
// returned.
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
			cancel(err) // ErrClosed also ends the other watches
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

// watch adds the keys of all existing objects of a resource, and then those of its events.
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
				cfg.Log.Warn("sync failed; will retry", "controller", cfg.Name, "key", next.Key, "err", err)
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
