package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"kelson.dev/operator/trace"
)

// NewClient returns a client with controller-runtime's options. If the reader in the options is a
// [Cache], reads of the client see its writes. The tracer, which may be nil, records reads
// and writes.
func NewClient(config *rest.Config, o crclient.Options, tracer *trace.Tracer) (crclient.Client, error) {
	if config == nil {
		return nil, errors.New("new client: rest.Config is nil")
	}
	c := &Client{tracer: tracer, uncached: map[schema.GroupVersionKind]bool{}}
	if o.Cache != nil && o.Cache.Reader != nil {
		c.cache, c.unstructured = o.Cache.Reader, o.Cache.Unstructured
	}
	ownCache, _ := c.cache.(*Cache)
	if ownCache != nil {
		o.Scheme = cmp.Or(o.Scheme, ownCache.scheme)
		c.wrapped.c = tracer.LiveClient(writer{ownCache.live, ownCache})
	} else {
		o.Scheme = cmp.Or(o.Scheme, scheme.Scheme)
		if o.Mapper == nil {
			var err error
			if o.Mapper, err = newMapper(config, o.HTTPClient); err != nil {
				return nil, fmt.Errorf("new client: %w", err)
			}
		}
		live, err := newLive(config, o.HTTPClient, o.Scheme, o.Mapper, nil)
		if err != nil {
			return nil, fmt.Errorf("new client: %w", err)
		}
		c.wrapped.c = tracer.LiveClient(live)
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

// Live returns a reader of the server that a cache reads from. The tracer, which may be nil,
// records the reads.
func Live(c *Cache, tracer *trace.Tracer) crclient.Reader {
	return &Client{wrapped: wrapped{c: tracer.LiveClient(c.live), plain: true, scheme: func() *runtime.Scheme {
		return c.scheme
	}}}
}

// Client is a client with controller-runtime's interface. It reads from a cache, except for the
// kinds that options exclude, and writes to the server.
type Client struct {
	wrapped
	cache        crclient.Reader // nil: all reads go to the server
	uncached     map[schema.GroupVersionKind]bool
	unstructured bool // the cache has unstructured objects too
	tracer       *trace.Tracer
}

var _ crclient.Client = (*Client)(nil)

// GroupVersionKindFor returns the kind of an object.
func (c *Client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.Scheme())
}

// IsObjectNamespaced reports whether an object's kind is namespaced.
func (c *Client) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(obj, c.Scheme(), c.RESTMapper())
}

// keepKind checks that an object can be mapped to a kind, and returns a function that restores the
// kind in a Go type, because controller-runtime's client does not set it.
func (c *Client) keepKind(obj runtime.Object) (restore func(), err error) {
	if _, err := c.GroupVersionKindFor(obj); err != nil {
		return nil, err
	}
	if isDynamic(obj) {
		return func() {}, nil
	}
	before := obj.GetObjectKind().GroupVersionKind()
	return func() { obj.GetObjectKind().SetGroupVersionKind(before) }, nil
}

// isDynamic reports whether an object or list carries its kind.
func isDynamic(obj runtime.Object) bool {
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return true
	}
	return false
}

// written calls a function that writes an object.
func (c *Client) written(obj runtime.Object, write func() error) error {
	restore, err := c.keepKind(obj)
	if err != nil {
		return err
	}
	defer restore()
	return write()
}

// Create creates an object.
func (c *Client) Create(ctx context.Context, obj crclient.Object, opts ...crclient.CreateOption) error {
	return c.written(obj, func() error { return c.wrapped.Create(ctx, obj, opts...) })
}

// Update replaces an object.
func (c *Client) Update(ctx context.Context, obj crclient.Object, opts ...crclient.UpdateOption) error {
	return c.written(obj, func() error { return c.wrapped.Update(ctx, obj, opts...) })
}

// Patch patches an object.
func (c *Client) Patch(ctx context.Context, obj crclient.Object, p crclient.Patch, opts ...crclient.PatchOption) error {
	return c.written(obj, func() error { return c.wrapped.Patch(ctx, obj, p, opts...) })
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, obj crclient.Object, opts ...crclient.DeleteOption) error {
	return c.written(obj, func() error { return c.wrapped.Delete(ctx, obj, opts...) })
}

// DeleteAllOf deletes objects of a kind.
func (c *Client) DeleteAllOf(ctx context.Context, obj crclient.Object, opts ...crclient.DeleteAllOfOption) error {
	return c.written(obj, func() error { return c.wrapped.DeleteAllOf(ctx, obj, opts...) })
}

// Status returns a writer of the status subresource.
func (c *Client) Status() crclient.SubResourceWriter { return c.SubResource("status") }

// SubResource returns a client of a subresource.
func (c *Client) SubResource(name string) crclient.SubResourceClient {
	return clientSubresource{c.wrapped.SubResource(name), c}
}

// clientSubresource treats kinds as Client does.
type clientSubresource struct {
	crclient.SubResourceClient
	client *Client
}

func (s clientSubresource) Get(ctx context.Context, obj, into crclient.Object,
	opts ...crclient.SubResourceGetOption) error {
	return s.client.written(into, func() error { return s.SubResourceClient.Get(ctx, obj, into, opts...) })
}

func (s clientSubresource) Create(ctx context.Context, obj, body crclient.Object,
	opts ...crclient.SubResourceCreateOption) error {
	return s.client.written(obj, func() error { return s.SubResourceClient.Create(ctx, obj, body, opts...) })
}

func (s clientSubresource) Update(ctx context.Context, obj crclient.Object,
	opts ...crclient.SubResourceUpdateOption) error {
	return s.client.written(obj, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

func (s clientSubresource) Patch(ctx context.Context, obj crclient.Object, p crclient.Patch,
	opts ...crclient.SubResourcePatchOption) error {
	return s.client.written(obj, func() error { return s.SubResourceClient.Patch(ctx, obj, p, opts...) })
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, key crclient.ObjectKey, obj crclient.Object,
	opts ...crclient.GetOption) error {
	if live, err := c.isLive(obj); err != nil {
		return err
	} else if live {
		return c.written(obj, func() error { return c.wrapped.Get(ctx, key, obj, opts...) })
	}
	return c.tracer.Read(ctx, func() error { return c.cache.Get(ctx, key, obj, opts...) }, func() trace.Read {
		return trace.Read{Verb: "get", Kind: c.kindOf(obj), Key: key, ResourceVersion: obj.GetResourceVersion()}
	})
}

// List reads objects.
func (c *Client) List(ctx context.Context, list crclient.ObjectList, opts ...crclient.ListOption) error {
	if live, err := c.isLive(list); err != nil {
		return err
	} else if live {
		return c.listLive(ctx, list, opts)
	}
	return c.tracer.Read(ctx, func() error { return c.cache.List(ctx, list, opts...) }, func() trace.Read {
		o := (&crclient.ListOptions{}).ApplyOptions(opts)
		var selectors []string
		if o.LabelSelector != nil && !o.LabelSelector.Empty() {
			selectors = append(selectors, o.LabelSelector.String())
		}
		if o.FieldSelector != nil && !o.FieldSelector.Empty() {
			selectors = append(selectors, o.FieldSelector.String())
		}
		return trace.Read{
			Verb: "list", Kind: strings.TrimSuffix(c.kindOf(list), "List"),
			Key:      crclient.ObjectKey{Namespace: o.Namespace},
			Selector: strings.Join(selectors, ","), ResourceVersion: list.GetResourceVersion(),
			Count: meta.LenList(list),
		}
	})
}

// kindOf returns the kind of an object or list; empty if the scheme does not have it.
func (c *Client) kindOf(obj runtime.Object) string {
	kind, _ := c.GroupVersionKindFor(obj)
	return kind.Kind
}

func (c *Client) listLive(ctx context.Context, list crclient.ObjectList, opts []crclient.ListOption) error {
	err := c.written(list, func() error { return c.wrapped.List(ctx, list, opts...) })
	if err != nil || isDynamic(list) {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return nil
	})
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
