package node

import (
	"context"
	"log/slog"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reflector"
)

// mirror follows a kind, or a selection of it, on the server, and reports changes. It keeps one
// pointer per object. A reflector drives it in one goroutine, which also calls changed: old is nil
// for a new object, and obj is nil for a deleted one. If an object was replaced by another of the
// same name, changed is called for the deletion and then for the new object.
type mirror[T any, P client.Pointer[T]] struct {
	client  client.Client
	options []client.ListOption
	log     *slog.Logger
	changed func(old, obj P)

	objects map[client.Key]P
}

// run follows the kind until ctx ends.
func (m *mirror[T, P]) run(ctx context.Context) error {
	m.objects = map[client.Key]P{}
	cfg := reflector.Config[P]{Source: m, Sink: m, Failed: func(err error) {
		// A server that shuts down or is busy says when to try again.
		if _, later := apierrors.SuggestsClientDelay(err); ctx.Err() == nil && !later {
			m.log.Warn("list and watch", "kind", reflect.TypeFor[T]().Name(), "error", err)
		}
	}}
	if client.Steady(m.client) {
		cfg.WatchTimeout = reflector.Forever
	}
	return reflector.New(cfg).Run(ctx)
}

// List implements reflector.Source.
func (m *mirror[T, P]) List(ctx context.Context, opts reflector.ListOptions) (reflector.Page[P], error) {
	list := client.NewItems(P(new(T)))
	options := append(m.options[:len(m.options):len(m.options)], client.Limit(opts.Limit),
		client.Continue(opts.Continue))
	if err := m.client.List(ctx, list, options...); err != nil {
		return reflector.Page[P]{}, err
	}
	page := reflector.Page[P]{Version: list.ResourceVersion, Continue: list.Continue}
	for _, item := range list.Items {
		page.Items = append(page.Items, item.(P))
	}
	return page, nil
}

// Watch implements reflector.Source.
func (m *mirror[T, P]) Watch(ctx context.Context, opts reflector.WatchOptions) (watch.Interface, error) {
	o := client.NewListOptions(m.options...)
	o.Bookmarks, o.InitialEvents, o.Timeout, o.ResourceVersion = true, opts.InitialEvents, opts.Timeout, opts.Version
	return m.client.Watch(ctx, client.NewItems(P(new(T))), o)
}

// Add implements reflector.Sink.
func (m *mirror[T, P]) Add(obj P) {
	key := client.KeyOf(obj)
	old := m.objects[key]
	m.objects[key] = obj
	if old != nil && old.GetUID() != obj.GetUID() {
		m.changed(old, nil)
		old = nil
	}
	m.changed(old, obj)
}

// Update implements reflector.Sink.
func (m *mirror[T, P]) Update(obj P) { m.Add(obj) }

// Delete implements reflector.Sink.
func (m *mirror[T, P]) Delete(obj P) {
	if old := m.objects[client.KeyOf(obj)]; old != nil {
		delete(m.objects, client.KeyOf(obj))
		m.changed(obj, nil)
	}
}

// Replace implements reflector.Sink.
func (m *mirror[T, P]) Replace(items []P, _ string) {
	present := make(map[client.Key]bool, len(items))
	for _, item := range items {
		present[client.KeyOf(item)] = true
	}
	for key, old := range m.objects {
		if !present[key] {
			delete(m.objects, key)
			m.changed(old, nil)
		}
	}
	for _, item := range items {
		m.Add(item)
	}
}

// Bookmark implements reflector.Sink.
func (m *mirror[T, P]) Bookmark(string) {}

// Resync implements reflector.Sink.
func (m *mirror[T, P]) Resync() {}
