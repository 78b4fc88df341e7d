package faults

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
)

// write is do for a write, which must leave obj unchanged if it fails. A nil obj is not kept.
func (c *Client) write(ctx context.Context, call Call, obj runtime.Object, execute func() error) error {
	v := reflect.ValueOf(obj)
	if !v.IsValid() || v.Kind() != reflect.Pointer || v.IsNil() {
		return c.do(ctx, call, execute)
	}
	before := reflect.ValueOf(obj.DeepCopyObject())
	err := c.do(ctx, call, execute)
	if err != nil {
		v.Elem().Set(before.Elem())
	}
	return err
}

// Create implements client.Writer.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return c.write(ctx, c.call(Create, obj, ""), obj, func() error { return c.Client.Create(ctx, obj, opts...) })
}

// Update implements client.Writer.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return c.write(ctx, c.call(Update, obj, ""), obj, func() error { return c.Client.Update(ctx, obj, opts...) })
}

// Patch implements client.Writer.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return c.write(ctx, c.call(Patch, obj, ""), obj, func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

// Apply implements client.Writer.
func (c *Client) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return c.write(ctx, c.call(Apply, obj, ""), obj, func() error { return c.Client.Apply(ctx, obj, opts...) })
}

// Delete implements client.Writer.
func (c *Client) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.do(ctx, c.call(Delete, obj, ""), func() error { return c.Client.Delete(ctx, obj, opts...) })
}

// DeleteAllOf implements client.Writer.
func (c *Client) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	call := Call{Verb: DeleteAllOf, Kind: c.kindOf(obj), Namespace: client.NewDeleteAllOfOptions(opts...).Namespace}
	return c.do(ctx, call, func() error { return c.Client.DeleteAllOf(ctx, obj, opts...) })
}

// Subresource implements client.Writer.
func (c *Client) Subresource(name string) client.SubresourceWriter {
	return subresource{c.Client.Subresource(name), c, name}
}

type subresource struct {
	next client.SubresourceWriter
	c    *Client
	name string
}

func (s subresource) Get(ctx context.Context, obj client.Object, into runtime.Object) error {
	return s.c.do(ctx, s.c.call(Get, obj, s.name), func() error { return s.next.Get(ctx, obj, into) })
}

func (s subresource) Create(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.c.write(ctx, s.c.call(Create, obj, s.name), obj, func() error {
		return s.next.Create(ctx, obj, body, opts...)
	})
}

func (s subresource) Update(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.c.write(ctx, s.c.call(Update, obj, s.name), obj, func() error {
		return s.next.Update(ctx, obj, body, opts...)
	})
}

func (s subresource) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.WriteOption) error {
	return s.c.write(ctx, s.c.call(Patch, obj, s.name), obj, func() error {
		return s.next.Patch(ctx, obj, patch, opts...)
	})
}

func (s subresource) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return s.c.write(ctx, s.c.call(Apply, obj, s.name), obj, func() error { return s.next.Apply(ctx, obj, opts...) })
}
