package rest

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

var _ resource.Objects = (*Handler)(nil)

// Get reads an object, in process.
func (h *Handler) Get(ctx context.Context, res *resource.Resource, namespace, name string) (runtime.Object, error) {
	obj := h.store.Snapshot().Get(res.Key(namespace, name))
	if obj == nil {
		return nil, apierrors.NewNotFound(res.GroupResource(), name)
	}
	return res.Codec.Load(obj.Data)
}

// Update changes an object, in process. It does not run admission and does not track managedFields.
func (h *Handler) Update(ctx context.Context, res *resource.Resource, namespace, name string,
	strategy upstream.RESTUpdateStrategy, dryRun bool,
	edit func(hub runtime.Object) error,
) (runtime.Object, error) {
	if strategy == nil {
		strategy = res.Strategy
	}
	done, err := h.replace(inProcess(ctx, res, namespace, name, resource.Update), &change{
		res: res, key: res.Key(namespace, name), strategy: strategy, dryRun: dryRun,
		next: func(_ context.Context, old runtime.Object, current *store.Object) (runtime.Object, error) {
			if current == nil {
				return nil, apierrors.NewNotFound(res.GroupResource(), name)
			}
			hub := old.DeepCopyObject()
			return hub, edit(hub)
		},
	})
	if err != nil {
		return nil, err
	}
	return done.hub, nil
}

// Delete deletes an object, in process, and returns its last state or a Status.
func (h *Handler) Delete(ctx context.Context, res *resource.Resource, namespace, name string,
	opts *metav1.DeleteOptions) (runtime.Object, error) {
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	done, err := h.remove(inProcess(ctx, res, namespace, name, resource.Delete), res, res.Key(namespace, name), opts,
		nil)
	if err != nil {
		return nil, err
	}
	if done.status != nil {
		return done.status, nil
	}
	return res.Codec.Load(done.obj.Data)
}

// List reads objects, in process; namespace "" means all, sel nil means all.
func (h *Handler) List(ctx context.Context, res *resource.Resource, namespace string,
	sel labels.Selector) ([]runtime.Object, error) {
	var hubs []runtime.Object
	for obj := range h.store.Snapshot().Scan(res.Prefix(), namespace, store.Key{}) {
		if sel != nil && !sel.Matches(labels.Set(obj.Head.Labels)) {
			continue
		}
		hub, err := res.Codec.Load(obj.Data)
		if err != nil {
			return nil, err
		}
		hubs = append(hubs, hub)
	}
	return hubs, nil
}

// inProcess returns a context as strategies expect it: with the namespace and the RequestInfo of
// the equivalent request.
func inProcess(ctx context.Context, res *resource.Resource, namespace, name, verb string) context.Context {
	version := storedOrServed(res)
	return request.WithRequestInfo(request.WithNamespace(ctx, namespace), &request.RequestInfo{
		IsResourceRequest: true, Verb: verb,
		APIGroup: res.Group, APIVersion: version, Resource: res.Plural, Namespace: namespace, Name: name,
	})
}
