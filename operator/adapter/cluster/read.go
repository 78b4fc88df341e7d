package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"kelson.dev/operator/client"
)

// Get reads an object. It starts an informer on the first use of a kind, and waits for it.
func (c *Cache) Get(ctx context.Context, key crclient.ObjectKey, out crclient.Object,
	opts ...crclient.GetOption) error {
	i, err := c.reader(out)
	if err != nil {
		return err
	}
	o := crclient.GetOptions{}
	o.ApplyOptions(opts)
	if !i.namespaced {
		key.Namespace = ""
	}
	l := i.placement.leafOf(i.namespaced, key.Namespace)
	if l == nil {
		return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
	}
	if l.hides(i.namespaced, key.Namespace) {
		return i.notFound(key)
	}
	if !unsafe(l, o.UnsafeDisableDeepCopy) {
		err := l.informers.Client().Get(ctx, key, out)
		if status, ok := err.(*apierrors.StatusError); ok && apierrors.IsNotFound(status) {
			return i.notFound(key)
		}
		return i.explain(err)
	}
	if !i.waitSynced(ctx) {
		return i.timeout(ctx)
	}
	obj, ok := i.parts[l].Get(key)
	if !ok {
		return i.notFound(key)
	}
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(obj).Elem())
	return nil
}

// notFound returns an error that names the kind instead of the resource, as controller-runtime's
// cache does.
func (i *Informer) notFound(key client.Key) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: i.kind.Group, Resource: i.kind.Kind}, key.Name)
}

// List reads objects, ordered by namespace and name. It starts an informer on the first use of a
// kind, and waits for it.
func (c *Cache) List(ctx context.Context, out crclient.ObjectList, opts ...crclient.ListOption) error {
	item, err := c.itemOf(out)
	if err != nil {
		return err
	}
	i, err := c.reader(item)
	if err != nil {
		return err
	}
	o := crclient.ListOptions{}
	o.ApplyOptions(opts)
	if !i.namespaced {
		o.Namespace = ""
	}
	leaves := i.leaves()
	if o.Namespace != "" {
		l := i.placement.leafOf(i.namespaced, o.Namespace)
		if l == nil {
			return fmt.Errorf("unable to list: %v because of unknown namespace for the cache", o.Namespace)
		}
		leaves = []*leaf{l}
	}
	if len(leaves) == 1 {
		return i.listLeaf(ctx, leaves[0], out, o)
	}
	if o.Continue != "" {
		return errors.New("continue list option is not supported by a cache with separately configured namespaces")
	}
	var all []runtime.Object
	version := ""
	for _, l := range leaves {
		part := emptyLike(out)
		part.GetObjectKind().SetGroupVersionKind(out.GetObjectKind().GroupVersionKind())
		if err := i.listLeaf(ctx, l, part, o); err != nil {
			return err
		}
		items, err := meta.ExtractList(part)
		if err != nil {
			return err
		}
		all, version = append(all, items...), part.GetResourceVersion()
	}
	if o.Limit > 0 && int64(len(all)) > o.Limit {
		all = all[:o.Limit]
	}
	if err := meta.SetList(out, all); err != nil {
		return err
	}
	out.SetResourceVersion(version)
	return nil
}

func (i *Informer) listLeaf(ctx context.Context, l *leaf, out crclient.ObjectList, o crclient.ListOptions) error {
	if o.Namespace != "" && l.hides(i.namespaced, o.Namespace) {
		return client.FillList(out, nil)
	}
	// A cache ignores the requirements in Raw options, because they are for servers.
	list := client.ListOptions{Namespace: o.Namespace, Labels: o.LabelSelector, Fields: o.FieldSelector, Limit: o.Limit,
		Continue: o.Continue}
	if !unsafe(l, o.UnsafeDisableDeepCopy) || list.Fields != nil && !list.Fields.Empty() || list.Limit > 0 ||
		list.Continue != "" {
		return i.explain(l.informers.Client().List(ctx, out, list))
	}
	if !i.waitSynced(ctx) {
		return i.timeout(ctx)
	}
	var items []client.Object
	for _, obj := range i.parts[l].List(list.Namespace) {
		if list.Labels == nil || list.Labels.Matches(labels.Set(obj.GetLabels())) {
			copied := emptyLike(obj)
			reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(obj).Elem())
			items = append(items, copied)
		}
	}
	return client.FillList(out, items)
}

// unsafe reports whether a read may return shared objects.
func unsafe(l *leaf, option *bool) bool {
	if option != nil {
		return *option || l.shared
	}
	return l.shared
}

// reader returns the informer to read from.
func (c *Cache) reader(obj client.Object) (*Informer, error) {
	i, err := c.informer(obj, !c.failOnMissingInformer)
	if err != nil {
		return nil, err
	}
	if !c.hasStarted() {
		return nil, &cache.ErrCacheNotStarted{}
	}
	return i, nil
}

// itemOf returns an empty item of a list.
func (c *Cache) itemOf(list crclient.ObjectList) (client.Object, error) {
	kind, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return nil, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	switch list.(type) {
	case runtime.Unstructured:
		item := &unstructured.Unstructured{}
		item.SetGroupVersionKind(kind)
		return item, nil
	case *metav1.PartialObjectMetadataList:
		item := &metav1.PartialObjectMetadata{}
		item.SetGroupVersionKind(kind)
		return item, nil
	}
	item, err := c.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	typed, ok := item.(client.Object)
	if !ok {
		return nil, fmt.Errorf("list %T: items of type %T have no metadata", list, item)
	}
	return typed, nil
}

// explain converts the error of a read whose context ended to the error that controller-runtime's
// cache returns.
func (i *Informer) explain(err error) error {
	if err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return apierrors.NewTimeoutError(fmt.Sprintf("failed waiting for %T Informer to sync: %v", i.prototype, err), 0)
	}
	return err
}

func (i *Informer) timeout(ctx context.Context) error { return i.explain(context.Cause(ctx)) }

// emptyLike returns an empty value of the type that v points to.
func emptyLike[T any](v T) T { return reflect.New(reflect.TypeOf(v).Elem()).Interface().(T) }
