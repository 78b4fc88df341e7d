package informer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/operator/client"
)

// Lister is a typed view of an informer. Its objects are shared: callers must not modify them.
type Lister[T any, P client.Pointer[T]] struct{ Informer Informer }

// ListerOf returns the lister of kind T.
//
//	pods, err := informer.ListerOf[corev1.Pod](informers)
func ListerOf[T any, P client.Pointer[T]](s Informers) (Lister[T, P], error) {
	inf, err := s.For(P(new(T)))
	if err != nil {
		return Lister[T, P]{}, fmt.Errorf("lister: %w", err)
	}
	return Lister[T, P]{inf}, nil
}

// Get returns an object by key.
func (l Lister[T, P]) Get(key client.Key) (P, bool) {
	obj, ok := l.Informer.Get(key)
	if !ok {
		return nil, false
	}
	return obj.(P), true
}

// List returns the objects of a namespace (all if empty) that the selector matches, in no
// particular order.
func (l Lister[T, P]) List(namespace string, selector labels.Selector) []P {
	var matching []P
	for _, obj := range l.Informer.List(namespace) {
		if selector == nil || selector.Matches(labels.Set(obj.GetLabels())) {
			matching = append(matching, obj.(P))
		}
	}
	return matching
}

// ByIndex returns the objects that an index has under a value.
func (l Lister[T, P]) ByIndex(name, value string) ([]P, error) {
	objs, err := l.Informer.ByIndex(name, value)
	if err != nil {
		return nil, err
	}
	typed := make([]P, len(objs))
	for n, obj := range objs {
		typed[n] = obj.(P)
	}
	return typed, nil
}
