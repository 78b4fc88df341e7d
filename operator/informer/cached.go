package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

const (
	// startGrace is how long a read waits for a call of Run.
	startGrace = 10 * time.Second
	// maxLag is how long a read waits for an informer to catch up with a write before it reads from
	// the server.
	maxLag = time.Second
)

// cached reads from informers and writes to the server. It records its writes in the overlays of
// the informers (see overlay).
type cached struct {
	client.Client // the server
	set           *informers
}

var _ client.Client = cached{}

func (s *informers) Client() client.Client { return cached{s.cfg.Client, s} }

// Get reads from the informer of into's kind and form, and starts it on first use. It reads from
// the server with client.Live or client.ResourceVersion, and for namespaces outside of the scope.
func (c cached) Get(ctx context.Context, key client.Key, into client.Object, opts ...client.GetOption) error {
	o := client.NewGetOptions(opts...)
	if o.Live || o.ResourceVersion != "" || c.set.isElsewhere(into) {
		return c.Client.Get(ctx, key, into, opts...)
	}
	i, err := c.reader(ctx, into)
	if err == nil {
		err = c.resolve(ctx, i.id.kind.GroupKind(), key.Namespace, key.Name)
	}
	if err != nil {
		return fmt.Errorf("get %T %s: %w", into, key, err)
	}
	obj, err := i.read(ctx, key)
	switch {
	case errors.Is(err, errOutside):
		return c.Client.Get(ctx, key, into, opts...)
	case errors.Is(err, errAskServer):
		if obj, err = c.getLive(ctx, i, key); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("get %T %s: %w", into, key, err)
	}
	if obj == nil {
		return apierrors.NewNotFound(c.resource(i.id.kind), key.Name)
	}
	if err := i.format.copyInto(obj, into); err != nil {
		return fmt.Errorf("get %T %s: %w", into, key, err)
	}
	if o.Shared != nil && reflect.TypeOf(obj) == reflect.TypeOf(into) {
		*o.Shared = obj
	}
	return nil
}

// List reads from the informer of the items' kind and form, ordered by namespace and name.
func (c cached) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := client.NewListOptions(opts...)
	if o.Live || o.ResourceVersion != "" {
		return c.Client.List(ctx, into, opts...)
	}
	item, err := client.ItemOf(into, c.Scheme())
	if err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	if c.set.isElsewhere(item) {
		return c.Client.List(ctx, into, opts...)
	}
	i, err := c.reader(ctx, item)
	if err == nil {
		err = c.resolve(ctx, i.id.kind.GroupKind(), o.Namespace, "")
	}
	if err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	if err := i.checkIndexes(o); err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	objs, version, err := i.readAll(ctx, o)
	switch {
	case errors.Is(err, errOutside):
		return c.Client.List(ctx, into, opts...)
	case errors.Is(err, errAskServer):
		if objs, version, err = c.listLive(ctx, i, o); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("list %T: %w", into, err)
	}
	objs, next := page(objs, o)
	for n, obj := range objs {
		copied := i.format.newObject()
		if err := i.format.copyInto(obj, copied); err != nil {
			return fmt.Errorf("list %T: %w", into, err)
		}
		objs[n] = copied
	}
	if err := client.FillList(into, objs); err != nil {
		return err
	}
	kind := i.id.kind
	kind.Kind += "List"
	into.GetObjectKind().SetGroupVersionKind(kind)
	into.SetResourceVersion(version)
	into.SetContinue(next)
	into.SetRemainingItemCount(nil)
	return nil
}

// getLive reads an object from the server; nil if it is outside of the informer's scope.
func (c cached) getLive(ctx context.Context, i *informer, key client.Key) (client.Object, error) {
	obj := i.format.newObject()
	if err := c.Client.Get(ctx, key, obj); err != nil {
		return nil, err
	}
	in, err := i.inScope(obj)
	if errors.Is(err, errAskServer) { // the server must evaluate the field selector
		items := client.NewItems(obj)
		err = c.Client.List(ctx, items, client.InNamespace(key.Namespace), client.ListOptions{Fields: i.scope.Fields},
			client.MatchingFields{"metadata.name": key.Name})
		if in = len(items.Items) > 0; in {
			obj = items.Items[0]
		}
	}
	if err != nil || !in {
		return nil, err
	}
	return transformed(obj, i.format.transform), nil
}

// listLive is readAll from the server, in one request, because continue tokens are the informer's.
// It compares fields in the encoded objects, because Go types do not preserve all of them.
func (c cached) listLive(ctx context.Context, i *informer, o client.ListOptions) ([]client.Object, string, error) {
	q := i.selection(o)
	var indexed, plain fields.Requirements
	for _, r := range q.requirements {
		if i.objs.HasIndex(r.Field) {
			indexed = append(indexed, r)
		} else {
			plain = append(plain, r)
		}
	}
	items := client.NewItems(client.NewEncoded(i.format.newObject()))
	if err := c.Client.List(ctx, items, client.ListOptions{Namespace: o.Namespace, Labels: o.Labels,
		Fields: i.scope.Fields}); err != nil {
		return nil, "", err
	}
	var objs []client.Object
	for _, item := range items.Items {
		obj := i.format.newObject()
		if err := client.Decode(item.(*client.Encoded).Data, obj, i.id.kind); err != nil {
			return nil, "", err
		}
		match := i.inNamespacesAndLabels(obj) && !q.nothing
		obj = transformed(obj, i.format.transform)
		for _, by := range []struct {
			obj          client.Object
			requirements fields.Requirements
		}{{obj, indexed}, {item, plain}} {
			if match {
				var err error
				if match, err = i.matchesFields(by.obj, by.requirements); err != nil {
					return nil, "", err
				}
			}
		}
		if match {
			objs = append(objs, obj)
		}
	}
	return objs, items.ResourceVersion, nil
}

// page sorts objects and returns Limit of them after Continue, which is the key of the last object
// of the previous page.
func page(objs []client.Object, o client.ListOptions) ([]client.Object, string) {
	slices.SortFunc(objs, func(a, b client.Object) int {
		if c := strings.Compare(a.GetNamespace(), b.GetNamespace()); c != 0 {
			return c
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	if o.Continue != "" {
		from, _ := slices.BinarySearchFunc(objs, o.Continue, func(obj client.Object, token string) int {
			namespace, name, _ := strings.Cut(token, "/")
			if c := strings.Compare(obj.GetNamespace(), namespace); c != 0 {
				return c
			}
			if obj.GetName() <= name {
				return -1
			}
			return 1
		})
		objs = objs[from:]
	}
	if o.Limit <= 0 || int64(len(objs)) <= o.Limit {
		return objs, ""
	}
	objs = objs[:o.Limit]
	last := objs[len(objs)-1]
	return objs, last.GetNamespace() + "/" + last.GetName()
}

// reader returns the synced informer for reads of obj's kind.
func (c cached) reader(ctx context.Context, obj client.Object) (*informer, error) {
	select {
	case <-c.set.running:
	default:
		timer := time.NewTimer(startGrace)
		defer timer.Stop()
		select {
		case <-c.set.running:
		case <-timer.C:
			return nil, ErrNotRunning
		case <-ctx.Done():
			return nil, errors.Join(ErrNotRunning, ctx.Err())
		}
	}
	i, err := c.set.informerFor(obj, true)
	if err != nil {
		return nil, err
	}
	return i, i.waitSynced(ctx, true)
}

func (c cached) resource(kind schema.GroupVersionKind) schema.GroupResource {
	mapping, err := c.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}
	}
	return mapping.Resource.GroupResource()
}

var (
	// errOutside is returned for objects outside of the informer's scope.
	errOutside = errors.New("outside of the informer's scope")
	// errAskServer is returned if the informer can't answer a read now.
	errAskServer = errors.New("the informer has not caught up")
)

// read returns the newest known state of a key; nil if the object does not exist. The object is
// shared.
func (i *informer) read(ctx context.Context, key client.Key) (client.Object, error) {
	lag := lag{}
	defer lag.stop()
	for {
		i.mu.Lock()
		if i.partOf(key) == nil {
			i.mu.Unlock()
			return nil, errOutside
		}
		e, isPending := i.pending(key)
		cached, _ := i.objs.Get(key)
		changed := i.change()
		i.mu.Unlock()
		switch {
		case !isPending:
			return cached, nil
		case e.kind == gone:
			return nil, nil
		case e.kind == present:
			if !e.scoped.in {
				return nil, e.scoped.err
			}
			return e.obj, nil
		case e.kind == opaque:
			return nil, errAskServer
		}
		if err := lag.wait(ctx, changed); err != nil {
			return nil, err
		}
	}
}

// readAll returns the newest known state of all objects that o selects, and its resourceVersion.
// The objects are shared.
func (i *informer) readAll(ctx context.Context, o client.ListOptions) ([]client.Object, string, error) {
	lag := lag{}
	defer lag.stop()
	q := i.selection(o)
	for {
		i.mu.Lock()
		if o.Namespace != "" && i.partOf(client.Key{Namespace: o.Namespace}) == nil {
			i.mu.Unlock()
			return nil, "", errOutside
		}
		objs, version, err := i.snapshot(q)
		changed := i.change()
		i.mu.Unlock()
		if err == nil {
			objs, err = i.filter(objs, q)
		}
		if !errors.Is(err, errBehind) {
			return objs, version, err
		}
		if err := lag.wait(ctx, changed); err != nil {
			return nil, "", err
		}
	}
}

// lag bounds how long one read waits for an informer that is behind.
type lag struct{ timer *time.Timer }

func (l *lag) wait(ctx context.Context, changed <-chan struct{}) error {
	if l.timer == nil {
		l.timer = time.NewTimer(maxLag)
	}
	select {
	case <-changed:
		return nil
	case <-l.timer.C:
		return errAskServer
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lag) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
