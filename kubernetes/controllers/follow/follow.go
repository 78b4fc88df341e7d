// Package follow runs controllers that react to the store's events: a queue of keys and one worker.
//
//	store ──▶ subscription ──Keys──▶ queue ──▶ Sync (one at a time)
//	                                   ▲           │ error: again, with backoff
//	                                   └───────────┘ duration: again, after it
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
	"log/slog"
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
	// state) was deleted. It must be quick: see [store.Store.Subscribe].
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

// Run runs the controller until ctx ends or the store is closed. While no keys are queued, it uses
// only the caller's goroutine.
func Run[K comparable](ctx context.Context, cfg Config[K]) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := workqueue.New(workqueue.Config[K, struct{}]{})
	stop := queue.Start(1, func(next workqueue.Item[K, struct{}]) { sync(ctx, cfg, queue, next.Key) })
	defer stop()
	defer queue.ShutDown()
	add := func(key K) { queue.Add(key, struct{}{}) }
	subscription := cfg.Store.Subscribe(cfg.Resources, func(sn *store.Snapshot) {
		for _, resource := range cfg.Resources {
			begin(sn, cfg, resource, add)
		}
	}, func(e *store.Event) {
		if cfg.Event != nil {
			cfg.Event(e, add)
		} else {
			cfg.Keys(e.Object, add)
		}
	})
	defer subscription.End()
	select {
	case <-ctx.Done():
	case <-subscription.Closed():
	}
	cancel() // must precede stop, which waits for Sync
	return nil
}

// begin adds the keys of all existing objects of a resource.
func begin[K comparable](sn *store.Snapshot, cfg Config[K], resource string, add func(K)) {
	if resource == "" {
		for each := range sn.Resources() {
			begin(sn, cfg, each, add)
		}
		return
	}
	for obj := range sn.Scan(resource, "", store.Key{}) {
		cfg.Keys(obj, add)
	}
}

// sync reconciles a key.
func sync[K comparable](ctx context.Context, cfg Config[K], queue *workqueue.Queue[K, struct{}], key K) {
	if ctx.Err() != nil {
		return
	}
	switch again, err := cfg.Sync(ctx, key); {
	case ctx.Err() != nil:
	case err != nil:
		if !apierrors.IsConflict(err) {
			cfg.Log.Warn("sync failed; will retry", "controller", cfg.Name, "key", key, "err", err)
		}
		queue.AddRateLimited(key, struct{}{})
	default:
		queue.Forget(key)
		if again > 0 {
			queue.AddAfter(key, struct{}{}, again)
		}
	}
}
