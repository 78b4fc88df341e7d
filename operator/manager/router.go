package manager

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// router is a client that uses the cluster in the context. All clusters have the same scheme. Its
// method Mapper, which has no context, returns the mapper of the manager's own cluster; MapperIn
// returns that of the context.
type router struct {
	client.Client // for the manager's own cluster
	m             *Manager
	clientOf      func(*Cluster) client.Client
}

func (r router) in(ctx context.Context) (client.Client, error) {
	if reconcile.Cluster(ctx) == "" {
		return r.Client, nil
	}
	c, err := r.m.ClusterFrom(ctx)
	if err != nil {
		return nil, err
	}
	return r.clientOf(c), nil
}

func (r router) do(ctx context.Context, f func(client.Client) error) error {
	c, err := r.in(ctx)
	if err != nil {
		return err
	}
	return f(c)
}

// MapperIn returns the mapper of the cluster in the context: clusters can serve different kinds.
func (r router) MapperIn(ctx context.Context) (meta.RESTMapper, error) {
	c, err := r.in(ctx)
	if err != nil {
		return nil, err
	}
	return c.Mapper(), nil
}

// with is do for a call that fills obj, and records the object's cluster.
func (r router) with(ctx context.Context, obj client.Object, f func(client.Client) error) error {
	err := r.do(ctx, f)
	if name := reconcile.Cluster(ctx); err == nil && name != "" {
		r.m.objectClusters.note(obj.GetUID(), name)
	}
	return err
}

// write is with for writes of an object itself. The status that a typed reconciler has set, and
// that is not yet written, stays in obj.
func (r router) write(ctx context.Context, obj client.Object, f func(client.Client) error) error {
	restore := reconcile.KeepStatus(ctx, obj)
	if err := r.with(ctx, obj, f); err != nil {
		return err
	}
	return restore()
}

func (r router) Get(ctx context.Context, key client.Key, into client.Object, opts ...client.GetOption) error {
	return r.with(ctx, into, func(c client.Client) error { return c.Get(ctx, key, into, opts...) })
}

func (r router) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return r.do(ctx, func(c client.Client) error { return c.List(ctx, into, opts...) })
}

func (r router) Create(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.with(ctx, obj, func(c client.Client) error { return c.Create(ctx, obj, opts...) })
}

func (r router) Update(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.write(ctx, obj, func(c client.Client) error { return c.Update(ctx, obj, opts...) })
}

func (r router) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return r.write(ctx, obj, func(c client.Client) error { return c.Patch(ctx, obj, patch, opts...) })
}

func (r router) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.write(ctx, obj, func(c client.Client) error { return c.Apply(ctx, obj, opts...) })
}

func (r router) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return r.do(ctx, func(c client.Client) error { return c.Delete(ctx, obj, opts...) })
}

func (r router) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return r.do(ctx, func(c client.Client) error { return c.DeleteAllOf(ctx, obj, opts...) })
}

func (r router) Watch(ctx context.Context, list client.ObjectList,
	opts ...client.ListOption) (w watch.Interface, err error) {
	err = r.do(ctx, func(c client.Client) error { w, err = c.Watch(ctx, list, opts...); return err })
	return w, err
}

func (r router) Subresource(name string) client.SubresourceWriter { return subresourceRouter{r, name} }

type subresourceRouter struct {
	r    router
	name string
}

func (s subresourceRouter) Get(ctx context.Context, obj client.Object, into runtime.Object) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Get(ctx, obj, into) })
}

func (s subresourceRouter) Create(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Create(ctx, obj, body, opts...) })
}

func (s subresourceRouter) Update(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Update(ctx, obj, body, opts...) })
}

func (s subresourceRouter) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Patch(ctx, obj, patch, opts...) })
}

func (s subresourceRouter) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Apply(ctx, obj, opts...) })
}
