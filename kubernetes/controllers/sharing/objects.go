package sharing

import (
	"errors"
	"sync"
	"weak"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Caches has the decoded objects that several caches of one control plane hold: those of
// Kubernetes' controllers, of the scheduler and of simulated nodes.
type Caches struct {
	Pods   *Objects[corev1.Pod, *corev1.Pod]
	Nodes  *Objects[corev1.Node, *corev1.Node]
	Leases *Objects[coordinationv1.Lease, *coordinationv1.Lease]
}

// New returns the decoded objects of a store.
func New(st *store.Store) *Caches {
	return &Caches{
		Pods:   &Objects[corev1.Pod, *corev1.Pod]{store: st, resource: "pods", inherit: inheritSpec},
		Nodes:  &Objects[corev1.Node, *corev1.Node]{store: st, resource: "nodes"},
		Leases: &Objects[coordinationv1.Lease, *coordinationv1.Lease]{store: st, resource: "leases.coordination.k8s.io"},
	}
}

// inheritSpec makes a state of a pod share the spec of the state before, which is half of the
// memory of a pod. The server increases the generation when the spec of a pod that has a node
// changes. A binding changes the spec, but not the generation.
func inheritSpec(pod, before *corev1.Pod) {
	if pod.UID == before.UID && pod.Generation == before.Generation && pod.Generation > 0 &&
		before.Spec.NodeName != "" {
		pod.Spec = before.Spec
	}
}

// Objects decodes the objects of one kind, each revision once for all caches that hold it at the
// same time. An object stays in memory only as long as a cache holds it. T is the Go type of the
// kind's storage version. Objects is safe for concurrent use.
type Objects[T any, P Object[T]] struct {
	store    *store.Store
	resource string // as in store.Key
	// inherit, if not nil, makes an object share parts of its former state.
	inherit func(v, before P)
	parts   Parts
}

// Object is a pointer to a T.
type Object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// decoded is a decoded object, while a cache holds it.
type decoded[T any] struct {
	mu    sync.Mutex // is held while the object is decoded, so that others wait for it
	value weak.Pointer[T]
}

// decodedAs is the memo key of *decoded[T].
type decodedAs[T any] struct{}

// MemoBytes implements store.Sized.
func (*decoded[T]) MemoBytes() int64 { return 32 }

// Of returns a stored object, without its managedFields and without its kind, as client-go's typed
// clients return it. before is the state that it replaced, or nil. The result is shared and must
// not be changed.
func (o *Objects[T, P]) Of(obj, before *store.Object) (P, error) {
	memo, err := obj.Memo(decodedAs[T]{}, func() (any, error) { return new(decoded[T]), nil })
	if err != nil {
		return nil, err // unreachable: new cannot fail
	}
	d := memo.(*decoded[T])
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.value.Value(); v != nil {
		return v, nil
	}
	v, err := derived.DecodeLean[T](obj)
	if err != nil {
		return nil, err
	}
	P(v).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	_, _ = o.parts.Trim(v) // never fails
	if o.inherit != nil && before != nil {
		if former := known[T](before); former != nil {
			o.inherit(v, former)
		}
	}
	d.value = weak.Make(v)
	return v, nil
}

// errUnknown means that an object was not decoded.
var errUnknown = errors.New("not decoded")

// known returns a decoded object if a cache holds it.
func known[T any](obj *store.Object) *T {
	memo, err := obj.Memo(decodedAs[T]{}, func() (any, error) { return nil, errUnknown })
	if err != nil {
		return nil
	}
	d := memo.(*decoded[T])
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.value.Value()
}
