// Package derived reads built-in objects from the store as Go values, and keeps what is computed of them for as long as it holds.
//
// The store keeps objects as bytes. A part of the control plane that decides by objects of its own (roles, webhook configurations,
// quotas) reads them here, always from the newest state: there are no caches to fill and nothing to wait for. An object is decoded
// once per revision, however many read it.
//
//	role, err := typed.Get[rbacv1.ClusterRole](snapshot, "clusterroles.rbac.authorization.k8s.io", "", "admin")
//	for quota, err := range typed.List[corev1.ResourceQuota](snapshot, "resourcequotas", namespace) { … }
//
// What is dear to compute (an index of all rules, compiled expressions) is kept in a [View], which is made again only after one of
// its resources was written:
//
//	v := typed.NewView(st, func(sn *store.Snapshot) (*index, error) { … }, "roles.rbac.authorization.k8s.io", …)
//	idx, err := v.Get()
//
// What would be dear to compute again after each write is changed by the writes one by one, in a [Fold].
//
// T is the Go type of the resource's storage version. Values are shared: never change them. All of it is safe for concurrent use.
package derived

import (
	"encoding/json"
	"fmt"
	"iter"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
)

// decodedAs is the memo key of the decoded form.
type decodedAs[T any] struct{}

// Of decodes a stored object.
func Of[T any](obj *store.Object) (*T, error) {
	v, err := obj.Memo(decodedAs[T]{}, func() (any, error) {
		v := new(T)
		if err := json.Unmarshal(obj.Data, v); err != nil {
			return nil, fmt.Errorf("decode %s %s/%s as stored: %w", obj.Key.Resource, obj.Key.Namespace, obj.Key.Name, err)
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*T), nil
}

// Get reads one object; resource is as in [store.Key]. An object that is not there is a NotFound of Kubernetes.
func Get[T any](sn *store.Snapshot, resource, namespace, name string) (*T, error) {
	obj := sn.Get(store.Key{Resource: resource, Namespace: namespace, Name: name})
	if obj == nil {
		return nil, apierrors.NewNotFound(schema.ParseGroupResource(resource), name)
	}
	return Of[T](obj)
}

// List yields the objects of a resource in the order of their names, in one namespace or ("") in all. One that can't be decoded comes
// as an error, and the others after it.
func List[T any](sn *store.Snapshot, resource, namespace string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for obj := range sn.Scan(resource, namespace, store.Key{}) {
			if !yield(Of[T](obj)) {
				return
			}
		}
	}
}

// View is a value computed from the objects of some resources.
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

// NewView returns a view over resources as in [store.Key]. Compute must depend on nothing else; it may run more than once under a race.
func NewView[T any](st *store.Store, compute func(*store.Snapshot) (T, error), resources ...string) *View[T] {
	return &View[T]{store: st, resources: resources, compute: compute}
}

// Get returns the value for the newest state: it reflects every write that was acknowledged before the call. Errors are not kept.
func (v *View[T]) Get() (T, error) {
	changed := v.store.Changed(v.resources...)
	if k := v.kept.Load(); k != nil && k.changed >= changed {
		return k.value, nil
	}
	value, err := v.compute(v.store.Snapshot())
	if err != nil {
		return value, err
	}
	// Of two that computed at a time the newer one stays.
	for next := (&kept[T]{changed, value}); ; {
		have := v.kept.Load()
		if have != nil && have.changed >= changed || v.kept.CompareAndSwap(have, next) {
			return value, nil
		}
	}
}
