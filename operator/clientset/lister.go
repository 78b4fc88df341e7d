package clientset

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// Lister reads the objects of an informer, from all namespaces or one. They are shared and must not
// be modified.
type Lister[T client.Object] struct {
	informer  *Informer
	resource  schema.GroupResource
	namespace string
}

// NewLister returns a lister for all namespaces. resource is used in errors.
func NewLister[T client.Object](i *Informer, resource schema.GroupResource) Lister[T] {
	return Lister[T]{informer: i, resource: resource}
}

// Namespaced returns a lister for one namespace.
func (l Lister[T]) Namespaced(namespace string) Lister[T] {
	l.namespace = namespace
	return l
}

// List returns the objects that the selector matches, in no particular order.
func (l Lister[T]) List(selector labels.Selector) ([]T, error) {
	if l.informer.err != nil {
		return nil, l.informer.err
	}
	var found []T
	for _, obj := range l.informer.shared.List(l.namespace) {
		if selector != nil && !selector.Empty() && !selector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		if obj, ok := obj.(T); ok {
			found = append(found, obj)
		}
	}
	return found, nil
}

// Get returns the object with a name, or a NotFound status.
func (l Lister[T]) Get(name string) (T, error) {
	var none T
	if l.informer.err != nil {
		return none, l.informer.err
	}
	obj, ok := l.informer.shared.Get(client.Key{Namespace: l.namespace, Name: name})
	if !ok {
		return none, apierrors.NewNotFound(l.resource, name)
	}
	typed, ok := obj.(T)
	if !ok {
		return none, apierrors.NewNotFound(l.resource, name)
	}
	return typed, nil
}
