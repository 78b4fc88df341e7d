package sharing

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/apiserver/store"
)

// buffered is the number of events that a watch decodes before its informer takes them.
const buffered = 64

// Informer returns an informer that reads the objects from the store instead of through the API:
// they are not encoded, sent and decoded again for each informer. namespace restricts them to a
// namespace, "" does not. keep, if not nil, selects objects, as a field selector does.
//
// The informer leaves out objects that can't be decoded: one of them must not stop all controllers.
func (o *Objects[T, P]) Informer(namespace string, keep func(P) bool,
	indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&listWatch[T, P]{o, namespace, keep}, P(new(T)), 0, indexers)
}

// listWatch implements cache.ListerWatcher and cache.ListerWatcherWithContext.
type listWatch[T any, P Object[T]] struct {
	objects   *Objects[T, P]
	namespace string
	keep      func(P) bool
}

// IsWatchListSemanticsUnSupported makes reflectors call List before Watch.
func (l *listWatch[T, P]) IsWatchListSemanticsUnSupported() bool { return true }

// List returns a list of all objects; like [Objects.Of], it shares them.
func (l *listWatch[T, P]) List(metav1.ListOptions) (runtime.Object, error) {
	return l.list(), nil
}

// ListWithContext is like List.
func (l *listWatch[T, P]) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return l.list(), nil
}

func (l *listWatch[T, P]) list() *metav1.List {
	sn := l.objects.store.Snapshot()
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(sn.Revision(), 10)},
		Items: []runtime.RawExtension{}}
	for obj := range sn.Scan(l.objects.resource, l.namespace, store.Key{}) {
		if v, err := l.objects.Of(obj, nil); err == nil && (l.keep == nil || l.keep(v)) {
			list.Items = append(list.Items, runtime.RawExtension{Object: v})
		}
	}
	return list
}

// Watch is like WatchWithContext.
func (l *listWatch[T, P]) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// WatchWithContext returns the events after a list's resourceVersion, until the caller calls Stop
// or ctx ends.
func (l *listWatch[T, P]) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	after, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: %v", err))
	}
	cursor, err := l.objects.store.Watch(l.objects.resource, after)
	if errors.Is(err, store.ErrCompacted) {
		return nil, apierrors.NewResourceExpired(err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", l.objects.resource, err)
	}
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{events: make(chan watch.Event, buffered), stop: stop}
	go func() {
		defer close(w.events)
		l.follow(ctx, cursor, w.events)
	}()
	return w, nil
}

// follow sends the events of a cursor until ctx ends.
func (l *listWatch[T, P]) follow(ctx context.Context, cursor *store.Cursor, events chan<- watch.Event) {
	send := func(e watch.Event) (ended bool) {
		select {
		case events <- e:
			return false
		case <-ctx.Done():
			return true
		}
	}
	for {
		next, _, err := cursor.Next()
		if err != nil {
			status := apierrors.NewInternalError(err).Status()
			if errors.Is(err, store.ErrCompacted) {
				status = apierrors.NewResourceExpired(err.Error()).Status()
			}
			send(watch.Event{Type: watch.Error, Object: &status})
			return
		}
		for _, e := range next {
			if l.namespace != "" && e.Object.Key.Namespace != l.namespace {
				continue
			}
			if v, err := l.objects.Of(e.Object, e.Prev); err == nil && send(l.event(e, v)) {
				return
			}
		}
		if len(next) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-cursor.Ready():
		}
	}
}

// event returns the event for an informer. An informer ignores the deletion of an object that it
// does not have, and takes the modification of one as its addition.
func (l *listWatch[T, P]) event(e *store.Event, v P) watch.Event {
	switch {
	case e.Type == store.Deleted || l.keep != nil && !l.keep(v):
		return watch.Event{Type: watch.Deleted, Object: v}
	case e.Type == store.Added:
		return watch.Event{Type: watch.Added, Object: v}
	}
	return watch.Event{Type: watch.Modified, Object: v}
}

// watcher implements watch.Interface.
type watcher struct {
	events chan watch.Event
	stop   context.CancelFunc
}

func (w *watcher) Stop()                          { w.stop() }
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }
