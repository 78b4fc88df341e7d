package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
)

// writer writes through the informers that have an object, so that reads of the cache see the
// result.
type writer struct {
	client.Client // the server
	cache         *Cache
}

// clientFor returns the client for an object. It records writes in all leaves that may have the
// object, in any version of its kind.
func (w writer) clientFor(obj client.Object) client.Client {
	kind, err := client.KindOf(obj, w.cache.scheme)
	if err != nil {
		return w.Client // which reports the error
	}
	c := w.Client
	for _, p := range w.cache.placements(kind) {
		if l := p.leafOf(p.spaces != nil && obj.GetNamespace() != "", obj.GetNamespace()); l != nil {
			c = l.informers.Recording(c)
		}
	}
	return c
}

func (w writer) Create(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return w.clientFor(obj).Create(ctx, obj, opts...)
}

func (w writer) Update(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return w.clientFor(obj).Update(ctx, obj, opts...)
}

func (w writer) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return w.clientFor(obj).Patch(ctx, obj, patch, opts...)
}

func (w writer) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return w.clientFor(obj).Apply(ctx, obj, opts...)
}

func (w writer) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return w.clientFor(obj).Delete(ctx, obj, opts...)
}

func (w writer) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	in := obj
	if o := client.NewDeleteAllOfOptions(opts...); o.Namespace != "" {
		in = obj.DeepCopyObject().(client.Object)
		in.SetNamespace(o.Namespace)
	}
	return w.clientFor(in).DeleteAllOf(ctx, obj, opts...)
}

func (w writer) Subresource(name string) client.SubresourceWriter { return subresourceWriter{w, name} }

type subresourceWriter struct {
	writer writer
	name   string
}

func (s subresourceWriter) clientFor(obj client.Object) client.SubresourceWriter {
	return s.writer.clientFor(obj).Subresource(s.name)
}

func (s subresourceWriter) Get(ctx context.Context, obj client.Object, into runtime.Object) error {
	return s.clientFor(obj).Get(ctx, obj, into)
}

func (s subresourceWriter) Create(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.clientFor(obj).Create(ctx, obj, body, opts...)
}

func (s subresourceWriter) Update(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.clientFor(obj).Update(ctx, obj, body, opts...)
}

func (s subresourceWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.WriteOption) error {
	return s.clientFor(obj).Patch(ctx, obj, patch, opts...)
}

func (s subresourceWriter) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return s.clientFor(obj).Apply(ctx, obj, opts...)
}
