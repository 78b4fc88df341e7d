package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"kelson.dev/operator/client"
	"kelson.dev/operator/trace"
)

// NewClient returns a client with controller-runtime's options. If the reader in the options is a
// [Cache], reads of the client see its writes. The tracer, which may be nil, records the writes.
func NewClient(config *rest.Config, o crclient.Options, tracer *trace.Tracer) (crclient.Client, error) {
	if config == nil {
		return nil, errors.New("new client: rest.Config is nil")
	}
	c := &Client{uncached: map[schema.GroupVersionKind]bool{}}
	if o.Cache != nil && o.Cache.Reader != nil {
		c.cache, c.unstructured = o.Cache.Reader, o.Cache.Unstructured
	}
	own, _ := c.cache.(*Cache)
	var live client.Client
	if own != nil {
		if o.Scheme == nil {
			o.Scheme = own.scheme
		}
		live = own.live
		c.wrapped.c = tracer.Client(writer{live, own})
	} else {
		if o.Scheme == nil {
			o.Scheme = scheme.Scheme
		}
		if o.Mapper == nil {
			httpClient := o.HTTPClient
			var err error
			if httpClient == nil {
				if httpClient, err = rest.HTTPClientFor(config); err != nil {
					return nil, fmt.Errorf("new client: %w", err)
				}
			}
			if o.Mapper, err = apiutil.NewDynamicRESTMapper(config, httpClient); err != nil {
				return nil, fmt.Errorf("new client: %w", err)
			}
		}
		var err error
		if live, err = newLive(config, o.HTTPClient, o.Scheme, o.Mapper, nil); err != nil {
			return nil, fmt.Errorf("new client: %w", err)
		}
		c.wrapped.c = tracer.Client(live)
	}
	c.wrapped.plain = true
	c.wrapped.scheme = func() *runtime.Scheme { return o.Scheme }
	if o.Cache != nil {
		for _, obj := range o.Cache.DisableFor {
			kind, err := c.GroupVersionKindFor(obj)
			if err != nil {
				return nil, fmt.Errorf("new client: %w", err)
			}
			c.uncached[kind] = true
		}
	}
	var all crclient.Client = c
	if o.DryRun != nil && *o.DryRun {
		all = crclient.NewDryRunClient(all)
	}
	if o.FieldOwner != "" {
		all = crclient.WithFieldOwner(all, o.FieldOwner)
	}
	if o.FieldValidation != "" {
		all = crclient.WithFieldValidation(all, crclient.FieldValidation(o.FieldValidation))
	}
	return all, nil
}

// Live returns a reader of the server that a cache reads from.
func Live(c *Cache) crclient.Reader {
	return wrapped{c: c.live, plain: true, scheme: func() *runtime.Scheme { return c.scheme }}
}

// Client is a client with controller-runtime's interface. It reads from a cache, except for the
// kinds that options exclude, and writes to the server.
type Client struct {
	wrapped
	cache        crclient.Reader // nil: all reads go to the server
	uncached     map[schema.GroupVersionKind]bool
	unstructured bool // the cache has unstructured objects too
}

var _ crclient.Client = (*Client)(nil)

// GroupVersionKindFor returns the kind of an object.
func (c *Client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.Scheme())
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, key crclient.ObjectKey, obj crclient.Object, opts ...crclient.GetOption) error {
	if live, err := c.isLive(obj); err != nil {
		return err
	} else if live {
		return c.wrapped.Get(ctx, key, obj, opts...)
	}
	return c.cache.Get(ctx, key, obj, opts...)
}

// List reads objects.
func (c *Client) List(ctx context.Context, list crclient.ObjectList, opts ...crclient.ListOption) error {
	if live, err := c.isLive(list); err != nil {
		return err
	} else if live {
		return c.wrapped.List(ctx, list, opts...)
	}
	return c.cache.List(ctx, list, opts...)
}

func (c *Client) isLive(obj runtime.Object) (bool, error) {
	if c.cache == nil {
		return true, nil
	}
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return false, err
	}
	if meta.IsListType(obj) {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	_, isUnstructured := obj.(runtime.Unstructured)
	return c.uncached[kind] || isUnstructured && !c.unstructured, nil
}

// writer writes through the informers that have an object, so that reads of the cache see the
// result.
type writer struct {
	client.Client // the server
	cache         *Cache
}

// of returns the client for an object.
func (w writer) of(obj client.Object) client.Client {
	kind, err := client.KindOf(obj, w.cache.scheme)
	if err != nil {
		return w.Client // which reports the error
	}
	p := w.cache.placement(kind)
	l := p.leafOf(p.spaces != nil && obj.GetNamespace() != "", obj.GetNamespace())
	if l == nil {
		return w.Client
	}
	return l.informers.Client()
}

func (w writer) Create(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return w.of(obj).Create(ctx, obj, opts...)
}

func (w writer) Update(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return w.of(obj).Update(ctx, obj, opts...)
}

func (w writer) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return w.of(obj).Patch(ctx, obj, patch, opts...)
}

func (w writer) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return w.of(obj).Apply(ctx, obj, opts...)
}

func (w writer) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return w.of(obj).Delete(ctx, obj, opts...)
}

func (w writer) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	in := obj
	if o := client.NewDeleteAllOfOptions(opts...); o.Namespace != "" {
		in = obj.DeepCopyObject().(client.Object)
		in.SetNamespace(o.Namespace)
	}
	return w.of(in).DeleteAllOf(ctx, obj, opts...)
}

func (w writer) Subresource(name string) client.SubresourceWriter { return subresourceWriter{w, name} }

type subresourceWriter struct {
	writer writer
	name   string
}

func (s subresourceWriter) of(obj client.Object) client.SubresourceWriter {
	return s.writer.of(obj).Subresource(s.name)
}

func (s subresourceWriter) Get(ctx context.Context, obj client.Object, into runtime.Object) error {
	return s.of(obj).Get(ctx, obj, into)
}

func (s subresourceWriter) Create(ctx context.Context, obj client.Object, body runtime.Object, opts ...client.WriteOption) error {
	return s.of(obj).Create(ctx, obj, body, opts...)
}

func (s subresourceWriter) Update(ctx context.Context, obj client.Object, body runtime.Object, opts ...client.WriteOption) error {
	return s.of(obj).Update(ctx, obj, body, opts...)
}

func (s subresourceWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return s.of(obj).Patch(ctx, obj, patch, opts...)
}

func (s subresourceWriter) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return s.of(obj).Apply(ctx, obj, opts...)
}
