package informer

import (
	"context"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// recording reads from a server, and records its writes as cached does.
type recording struct{ cached }

func (s *informers) Recording(c client.Client) client.Client { return recording{cached{c, s}} }

func (r recording) Get(ctx context.Context, key client.Key, into client.Object, opts ...client.GetOption) error {
	return r.Client.Get(ctx, key, into, opts...)
}

func (r recording) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return r.Client.List(ctx, into, opts...)
}

func (c cached) Create(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return c.wrote(c.Client.Create(ctx, obj, opts...), obj, opts)
}

func (c cached) Update(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return c.wrote(c.Client.Update(ctx, obj, opts...), obj, opts)
}

func (c cached) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return c.wrote(c.Client.Patch(ctx, obj, patch, opts...), obj, opts)
}

// wrote records the server's response to a write, which is in obj, or that there was none.
func (c cached) wrote(err error, obj client.Object, opts []client.WriteOption) error {
	o := client.NewWriteOptions(opts...)
	switch {
	case o.DryRun:
	case err == nil:
		c.set.noteState(obj, o.Given)
	default:
		c.set.noteError(err, obj)
	}
	return err
}

func (c cached) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := client.NewDeleteOptions(opts...)
	var status metav1.Status
	wantStatus := o.Status
	o.Status = &status
	if o.Answer == nil {
		o.Answer = newLike(obj)
	}
	prior := c.set.priorStates(obj)
	err := c.Client.Delete(ctx, obj, o)
	if wantStatus != nil {
		*wantStatus = status
	}
	switch {
	case o.DryRun:
	case err == nil && status.Status == "":
		c.set.noteDeleted(o.Answer)
	case err == nil:
		var uid types.UID
		if status.Details != nil {
			uid = status.Details.UID
		}
		c.set.noteGone(obj, uid, prior)
	case apierrors.IsNotFound(err):
		c.set.noteGone(obj, "", prior)
	default:
		c.set.noteError(err, obj)
	}
	return err
}

func (c cached) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	o := client.NewDeleteAllOfOptions(opts...)
	if o.Answers == nil {
		o.Answers = client.NewItems(obj)
	}
	if err := c.Client.DeleteAllOf(ctx, obj, o); err != nil || o.DryRun {
		if !o.DryRun {
			c.set.noteError(err, newLike(obj))
		}
		return err
	}
	return meta.EachListItem(o.Answers, func(item runtime.Object) error {
		// otherwise the object is unchanged
		if item, ok := item.(client.Object); ok && item.GetDeletionTimestamp() == nil {
			e := entry{kind: outdated, uid: item.GetUID(), version: parseVersion(item.GetResourceVersion())}
			c.set.recordWrite(item, func(*informer) entry { return e })
		}
		return nil
	})
}

func (c cached) Subresource(name string) client.SubresourceWriter {
	return cachedSubresource{c.Client.Subresource(name), c}
}

type cachedSubresource struct {
	client.SubresourceWriter
	cached cached
}

func (s cachedSubresource) Create(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.wrote(ctx, obj, opts, func() error { return s.SubresourceWriter.Create(ctx, obj, body, opts...) })
}

func (s cachedSubresource) Update(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.wrote(ctx, obj, opts, func() error { return s.SubresourceWriter.Update(ctx, obj, body, opts...) })
}

func (s cachedSubresource) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.WriteOption) error {
	return s.wrote(ctx, obj, opts, func() error { return s.SubresourceWriter.Patch(ctx, obj, patch, opts...) })
}

func (s cachedSubresource) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return s.wrote(ctx, obj, opts, func() error { return s.SubresourceWriter.Apply(ctx, obj, opts...) })
}

// wrote records the new state of obj. If the response does not contain it (a binding, an eviction,
// a Scale), and an informer has the kind, wrote reads the object from the server.
func (s cachedSubresource) wrote(ctx context.Context, obj client.Object, opts []client.WriteOption,
	write func() error) error {
	version := obj.GetResourceVersion()
	prior := s.cached.set.priorStates(obj)
	o := client.NewWriteOptions(opts...)
	if err := write(); err != nil || o.DryRun {
		if !o.DryRun {
			s.cached.set.noteError(err, obj)
		}
		return err
	}
	if now := obj.GetResourceVersion(); now != version && now != "" {
		s.cached.set.noteState(obj, o.Given)
		return nil
	}
	if !s.cached.set.holds(obj) {
		return nil
	}
	state := newLike(obj)
	switch err := s.cached.Client.Get(ctx, client.KeyOf(obj), state); {
	case err == nil:
		s.cached.set.noteState(state, true)
	case apierrors.IsNotFound(err):
		s.cached.set.noteGone(obj, "", prior)
	default:
		s.cached.set.noteError(err, obj)
	}
	return nil // the write itself succeeded
}

// newLike returns an empty object of obj's type and kind.
func newLike(obj client.Object) client.Object {
	fresh := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	fresh.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return fresh
}
