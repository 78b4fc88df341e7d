package client

import (
	"context"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Get reads one object.
func Get[T any, P Pointer[T]](ctx context.Context, r Reader, key Key, opts ...GetOption) (P, error) {
	obj := newOf[T, P](NewGetOptions(opts...).Kind)
	if err := r.Get(ctx, key, obj, opts...); err != nil {
		return nil, err
	}
	return obj, nil
}

// List reads objects. The caller owns them.
func List[T any, P Pointer[T]](ctx context.Context, r Reader, opts ...ListOption) ([]P, error) {
	items := NewItems(newOf[T, P](NewListOptions(opts...).Kind))
	if err := r.List(ctx, items, opts...); err != nil {
		return nil, err
	}
	objs := make([]P, len(items.Items))
	for i, item := range items.Items {
		objs[i] = item.(P)
	}
	return objs, nil
}

const pageSize = 500

// Each reads objects page by page. From a server, all pages have the same state; from a cache, each
// page has the state at its read. A page has 500 objects unless a Limit option is set. The loop
// ends after an error.
func Each[T any, P Pointer[T]](ctx context.Context, r Reader, opts ...ListOption) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		o := NewListOptions(opts...)
		if o.Limit == 0 {
			o.Limit = pageSize
		}
		for {
			items := NewItems(newOf[T, P](o.Kind))
			if err := r.List(ctx, items, o); err != nil {
				yield(nil, err)
				return
			}
			for _, item := range items.Items {
				if !yield(item.(P), nil) {
					return
				}
			}
			if items.Continue == "" {
				return
			}
			// The token contains the version; the API rejects requests with both.
			o.Continue, o.ResourceVersion, o.ResourceVersionMatch = items.Continue, "", ""
		}
	}
}

// Event is one change of a watched object.
type Event[P Object] struct {
	Type   watch.EventType
	Object P
}

// Events watches until the caller leaves the loop, ctx ends, the server ends the watch, or an error
// occurs. To follow a kind permanently, use an informer, which resumes.
func Events[T any, P Pointer[T]](ctx context.Context, w Watcher, opts ...ListOption) iter.Seq2[Event[P], error] {
	return func(yield func(Event[P], error) bool) {
		stream, err := w.Watch(ctx, NewItems(newOf[T, P](NewListOptions(opts...).Kind)), opts...)
		if err != nil {
			yield(Event[P]{Type: watch.Error}, err)
			return
		}
		defer stream.Stop()
		for event := range stream.ResultChan() {
			obj, ok := event.Object.(P)
			if !ok {
				yield(Event[P]{Type: watch.Error}, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object)))
				return
			}
			if !yield(Event[P]{event.Type, obj}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Event[P]{Type: watch.Error}, err)
		}
	}
}

func newOf[T any, P Pointer[T]](kind schema.GroupVersionKind) P {
	obj := P(new(T))
	if kind.Kind != "" {
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
	return obj
}
