package sharing

import (
	"slices"
	"strings"
	"sync"
	"weak"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
//
// The decoded objects are not memos of the stored ones: the store discards memos when it needs
// memory, and then two caches would hold two copies.
type Objects[T any, P Object[T]] struct {
	store    *store.Store
	resource string // as in store.Key
	// inherit, if not nil, makes an object share parts of its former state.
	inherit func(v, before P)
	parts   Parts

	mu      sync.Mutex
	decoded map[string]*states[T] // by UID, or by name for an object without one
	sweepAt int                   // the length of decoded at which to remove what no cache holds
}

// states are the decoded states of one object.
type states[T any] struct {
	users int // calls of Of that use it; guarded by Objects.mu

	mu   sync.Mutex // is held while a state is decoded, so that others wait for it
	list []state[T]
}

type state[T any] struct {
	revision uint64
	value    weak.Pointer[T]
}

// minSweep is the smallest number of objects that are searched for those that no cache holds.
const minSweep = 1024

// Object is a pointer to a T.
type Object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// Of returns a stored object, without its managedFields and without its kind, as client-go's typed
// clients return it. before is the state that it replaced, or nil. The result is shared and must
// not be changed.
func (o *Objects[T, P]) Of(obj, before *store.Object) (P, error) {
	s := o.use(obj)
	defer o.release(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.find(obj.Revision); v != nil {
		return v, nil
	}
	v, err := derived.DecodeLean[T](obj)
	if err != nil {
		return nil, err
	}
	P(v).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	_, _ = o.parts.Trim(v) // never fails
	if o.inherit != nil && before != nil {
		if former := s.find(before.Revision); former != nil {
			o.inherit(v, former)
		}
	}
	s.list = append(s.list, state[T]{obj.Revision, weak.Make(v)})
	return v, nil
}

// Get returns the newest state of an object, as Of does. If the object does not exist, the error is
// a Kubernetes NotFound.
func (o *Objects[T, P]) Get(namespace, name string) (P, error) {
	obj := o.store.Snapshot().Get(store.Key{Resource: o.resource, Namespace: namespace, Name: name})
	if obj == nil {
		return nil, apierrors.NewNotFound(schema.ParseGroupResource(o.resource), name)
	}
	return o.Of(obj, nil)
}

// use returns the states of an object. The caller must release them.
func (o *Objects[T, P]) use(obj *store.Object) *states[T] {
	id := string(obj.Head.UID)
	if id == "" {
		id = obj.Key.Namespace + "/" + obj.Key.Name
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.decoded[id]
	if s == nil {
		if len(o.decoded) >= o.sweepAt {
			o.sweep()
		}
		s = &states[T]{}
		o.decoded[strings.Clone(id)] = s // the UID can be a part of a large allocation
	}
	s.users++
	return s
}

func (o *Objects[T, P]) release(s *states[T]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.users--
}

// sweep removes the objects that no cache holds. The caller holds mu.
func (o *Objects[T, P]) sweep() {
	if o.decoded == nil {
		o.decoded = map[string]*states[T]{}
	}
	for id, s := range o.decoded {
		if s.users == 0 && !s.isHeld() {
			delete(o.decoded, id)
		}
	}
	o.sweepAt = max(minSweep, 2*len(o.decoded))
}

// find returns the decoded object of a revision if a cache holds it, and forgets others that no
// cache holds. The caller holds mu.
func (s *states[T]) find(revision uint64) (found *T) {
	s.list = slices.DeleteFunc(s.list, func(one state[T]) bool {
		v := one.value.Value()
		if one.revision == revision {
			found = v
		}
		return v == nil
	})
	return found
}

// isHeld reports whether a cache holds a state. The caller ensures that s has no users.
func (s *states[T]) isHeld() bool {
	return slices.ContainsFunc(s.list, func(one state[T]) bool { return one.value.Value() != nil })
}
