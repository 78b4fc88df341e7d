package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"kelson.dev/apiserver/store"
)

// watcher converts the events of a cursor to those of a watch.
type watcher struct {
	adapter   *adapter
	name      string
	opts      storage.ListOptions
	results   chan watch.Event
	cancelled context.CancelFunc
}

func (w *watcher) ResultChan() <-chan watch.Event { return w.results }
func (w *watcher) Stop()                          { w.cancelled() }

func (a *adapter) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	at, err := place(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	revision, err := a.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	wantsState := opts.SendInitialEvents != nil && *opts.SendInitialEvents ||
		opts.SendInitialEvents == nil && revision == 0
	sn := a.store.Snapshot()
	if wantsState || revision == 0 {
		if err := a.notOlder(opts.ResourceVersion, sn.Revision()); err != nil {
			return nil, err
		}
		revision = sn.Revision()
	}
	cursor, err := a.store.Watch(storedResource, revision)
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{adapter: a, name: at.Name, opts: opts, results: make(chan watch.Event, 100), cancelled: cancel}
	go func() {
		defer close(w.results)
		defer cancel()
		if err == nil && wantsState {
			err = w.initial(ctx, sn)
		}
		if err == nil {
			err = w.follow(ctx, cursor)
		}
		if err != nil && ctx.Err() == nil {
			w.send(ctx, watch.Event{Type: watch.Error, Object: status(err)})
		}
	}()
	flowcontrol.WatchInitialized(ctx)
	return w, nil
}

func status(err error) *metav1.Status {
	if errors.Is(err, store.ErrCompacted) {
		err = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		s := known.Status()
		return &s
	}
	s := apierrors.NewInternalError(err).Status()
	return &s
}

func (w *watcher) send(ctx context.Context, e watch.Event) error {
	select {
	case w.results <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// initial sends the existing objects and then, if requested, a bookmark.
func (w *watcher) initial(ctx context.Context, sn *store.Snapshot) error {
	for _, obj := range objects(sn, w.name, w.opts.Recursive, "") {
		pod, matched, err := w.object(ctx, obj, obj.Revision)
		if err != nil {
			return err
		}
		if matched {
			if err := w.send(ctx, watch.Event{Type: watch.Added, Object: pod}); err != nil {
				return err
			}
		}
	}
	if w.opts.SendInitialEvents == nil || !w.opts.Predicate.AllowWatchBookmarks {
		return nil
	}
	mark := &example.Pod{}
	mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	mark.ResourceVersion = fmt.Sprint(sn.Revision())
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: mark})
}

func (w *watcher) follow(ctx context.Context, cursor *store.Cursor) error {
	for {
		events, _, err := cursor.Next()
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := w.event(ctx, e); err != nil {
				return err
			}
		}
		if len(events) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-cursor.Ready():
			}
		}
	}
}

// event sends a write as the event that a watch with a selector receives.
func (w *watcher) event(ctx context.Context, e *store.Event) error {
	if name := e.Object.Key.Name; name != w.name && !(w.opts.Recursive && strings.HasPrefix(name, w.name)) {
		return nil
	}
	var before, after runtime.Object
	var was, is bool
	var err error
	if e.Prev != nil {
		if before, was, err = w.object(ctx, e.Prev, e.Revision()); err != nil {
			return err
		}
	}
	if e.Type != store.Deleted {
		if after, is, err = w.object(ctx, e.Object, e.Revision()); err != nil {
			return err
		}
	}
	switch {
	case was && is:
		return w.send(ctx, watch.Event{Type: watch.Modified, Object: after})
	case is:
		return w.send(ctx, watch.Event{Type: watch.Added, Object: after})
	case was:
		return w.send(ctx, watch.Event{Type: watch.Deleted, Object: before})
	}
	return nil
}

func (w *watcher) object(ctx context.Context, obj *store.Object, revision uint64) (runtime.Object, bool, error) {
	pod := &example.Pod{}
	if err := w.adapter.read(ctx, obj, pod); err != nil {
		return nil, false, err
	}
	if err := w.adapter.UpdateObject(pod, revision); err != nil {
		return nil, false, err
	}
	matched, err := w.opts.Predicate.Matches(pod)
	return pod, matched && err == nil, nil
}
