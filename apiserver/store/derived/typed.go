// Package derived reads built-in objects from the store as Go values, and caches values computed
// from them.
//
// The store keeps objects as bytes. Parts of the control plane that depend on certain objects
// (roles, webhook configurations, quotas) read them with this package, always from the newest
// state: there is no cache to fill and nothing to wait for. An object is decoded once per revision
// for all readers.
//
//	role, err := derived.Get[rbacv1.ClusterRole](snapshot, "clusterroles.rbac.authorization.k8s.io", "", "admin")
//	for quota, err := range derived.List[corev1.ResourceQuota](snapshot, "resourcequotas", namespace) { … }
//
// A [View] caches a value that is expensive to compute (an index of all rules, compiled
// expressions) until one of its resources is written:
//
//	v := derived.NewView(st, func(sn *store.Snapshot) (*index, error) { … }, "roles.rbac.authorization.k8s.io", …)
//	idx, err := v.Get()
//
// A [Fold] updates a value event by event, if it would be too expensive to compute after every
// write.
//
// T is the Go type of the resource's storage version. Values are shared and must not be changed.
// The package is safe for concurrent use.
package derived

import (
	"encoding/json"
	"fmt"
	"iter"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/jsondecode"
)

// decodedAs is the memo key of the decoded form as a T.
type decodedAs[T any] struct{}

// Of returns a stored object as a T.
func Of[T any](obj *store.Object) (*T, error) {
	v, err := obj.Memo(decodedAs[T]{}, func() (any, error) { return Decode[T](obj) })
	if err != nil {
		return nil, err
	}
	return v.(*T), nil
}

// Decode returns a stored object as a new T, which the caller may change. It is for callers that
// keep decoded objects themselves: the result of Of stays in the memory of the store, too.
func Decode[T any](obj *store.Object) (*T, error) { return decode[T](obj, obj.Data) }

// DecodeLean is like Decode, but the result has no managedFields.
func DecodeLean[T any](obj *store.Object) (*T, error) {
	return decode[T](obj, obj.WithoutManagedFields())
}

// decode decodes data, which is the data of obj or a part of it.
func decode[T any](obj *store.Object, data []byte) (*T, error) {
	if err := obj.Unreadable(); err != nil {
		return nil, err
	}
	v := new(T)
	shared := pool.Get()
	err := jsondecode.Decode(data, v, texts{shared}, nil)
	pool.Put(shared)
	if err == nil {
		return v, nil
	}
	v = new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("decode %s %s/%s as stored: %w", obj.Key.Resource, obj.Key.Namespace, obj.Key.Name,
			err)
	}
	return v, nil
}

// Get returns one object; resource is as in [store.Key]. If the object does not exist, the error is
// a Kubernetes NotFound.
func Get[T any](sn *store.Snapshot, resource, namespace, name string) (*T, error) {
	obj := sn.Get(store.Key{Resource: resource, Namespace: namespace, Name: name})
	if obj == nil {
		return nil, apierrors.NewNotFound(schema.ParseGroupResource(resource), name)
	}
	return Of[T](obj)
}

// List yields the objects of a resource in the order of their names, in one namespace or, for "",
// in all. For an object that can't be decoded it yields an error, and continues.
func List[T any](sn *store.Snapshot, resource, namespace string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for obj := range sn.Scan(resource, namespace, store.Key{}) {
			if !yield(Of[T](obj)) {
				return
			}
		}
	}
}

// View caches a value that is computed from the objects of some resources.
type View[T any] struct {
	store     *store.Store
	resources []string
	compute   func(*store.Snapshot) (T, error)
	kept      atomic.Pointer[kept[T]]
}

type kept[T any] struct {
	changed uint64
	value   T
}

// NewView returns a View over resources, named as in [store.Key]. The result of compute must depend
// on nothing else. Concurrent calls of Get may run compute more than once.
func NewView[T any](st *store.Store, compute func(*store.Snapshot) (T, error), resources ...string) *View[T] {
	return &View[T]{store: st, resources: resources, compute: compute}
}

// Get returns the value for the newest state, which includes every write acknowledged before the
// call. Errors are not cached.
func (v *View[T]) Get() (T, error) {
	changed := v.store.Changed(v.resources...)
	if k := v.kept.Load(); k != nil && k.changed >= changed {
		return k.value, nil
	}
	value, err := v.compute(v.store.Snapshot())
	if err != nil {
		return value, err
	}
	// Of two concurrent results, keep the newer one.
	for next := (&kept[T]{changed, value}); ; {
		have := v.kept.Load()
		if have != nil && have.changed >= changed || v.kept.CompareAndSwap(have, next) {
			return value, nil
		}
	}
}
