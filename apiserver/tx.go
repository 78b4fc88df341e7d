package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// Tx is a transaction: it reads one state of the server's objects and collects writes. The writes
// are committed together, and only if nothing that the transaction read has changed. Otherwise the
// function that the transaction was passed to runs again, on the newer state. A Tx must not be used
// after that function has returned, or by several goroutines.
//
// Reads with [Get] and [List] return objects that the caller may change. Objects of kinds with a
// [Source] can be read, but a commit cannot depend on them.
type Tx struct {
	ctx    context.Context
	server *Server
	state  *store.Snapshot
	own    store.Key // the object of the write that the transaction belongs to
	read   map[store.Key]uint64
	lists  map[string]bool // by resource
	writes map[store.Key]store.Op
}

func (s *Server) begin(ctx context.Context) (*Tx, error) {
	state, err := s.store.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	return &Tx{ctx: ctx, server: s, state: state, read: map[store.Key]uint64{}, lists: map[string]bool{}, writes: map[store.Key]store.Op{}}, nil
}

// Transact runs do and commits all its writes together. The writes follow the rules of the objects'
// kinds, but admission does not run. Transact runs do again if other writes change what do has
// read. If do returns an error, Transact writes nothing and returns the error.
func (s *Server) Transact(ctx context.Context, do func(tx *Tx) error) error {
	for {
		tx, err := s.begin(ctx)
		if err != nil {
			return err
		}
		if err := do(tx); err != nil {
			return err
		}
		if len(tx.writes) == 0 {
			return nil // everything was read from one state
		}
		_, err = s.store.Commit(ctx, tx.ops()...)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || ctx.Err() != nil {
			return err
		}
	}
}

// ops returns the writes and their preconditions, in the order of their keys.
func (tx *Tx) ops() []store.Op {
	var ops []store.Op
	for _, key := range slices.SortedFunc(maps.Keys(tx.writes), byKey) {
		ops = append(ops, tx.writes[key])
	}
	for _, key := range slices.SortedFunc(maps.Keys(tx.read), byKey) {
		if _, written := tx.writes[key]; !written && key != tx.own {
			ops = append(ops, store.Op{Key: key, Expect: tx.read[key], Check: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tx.lists)) {
		ops = append(ops, store.Op{Key: store.Key{Resource: name}, Expect: tx.state.Revision(), Check: true})
	}
	return ops
}

func byKey(a, b store.Key) int {
	return slices.Compare([]string{a.Resource, a.Namespace, a.Name}, []string{b.Resource, b.Namespace, b.Name})
}

// typeOf returns the kind and version of a Go type.
func (s *Server) typeOf(t reflect.Type) (servedType, error) {
	served, ok := s.byType[t]
	if !ok {
		return served, fmt.Errorf("%s is not the type of a kind that this server serves", t)
	}
	return served, nil
}

// Get returns an object in the version of the type T. namespace is "" for cluster-scoped kinds. If
// the object does not exist, the error is a NotFound of apierrors.
func Get[T runtime.Object](tx *Tx, namespace, name string) (T, error) {
	var none T
	served, err := tx.server.typeOf(reflect.TypeFor[T]())
	if err != nil {
		return none, err
	}
	key := served.res.Key(namespace, name)
	state := tx.state
	if m := tx.server.mirrors[served.res.GroupResource()]; m != nil {
		if err := m.refresh(tx.ctx); err != nil {
			return none, err
		}
		state = m.store.Snapshot()
	}
	obj := state.Get(key)
	if state == tx.state {
		tx.read[key] = 0
		if obj != nil {
			tx.read[key] = obj.Revision
		}
	}
	if obj == nil {
		return none, apierrors.NewNotFound(served.res.GroupResource(), name)
	}
	return decodeAs[T](served, obj)
}

// List returns the objects of a kind, in the version of the type T and sorted by namespace and
// name. namespace "" means all namespaces, selector nil means all objects. A commit then fails if
// any object of the kind was written meanwhile. If several servers share the storage, it also fails
// if one of the listed objects was changed or deleted.
func List[T runtime.Object](tx *Tx, namespace string, selector labels.Selector) ([]T, error) {
	served, err := tx.server.typeOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	state := tx.state
	if m := tx.server.mirrors[served.res.GroupResource()]; m != nil {
		if err := m.refresh(tx.ctx); err != nil {
			return nil, err
		}
		state = m.store.Snapshot()
	} else {
		tx.lists[served.res.Prefix()] = true
	}
	var all []T
	for obj := range state.Scan(served.res.Prefix(), namespace, store.Key{}) {
		if selector != nil && !selector.Matches(labels.Set(obj.Head.Labels)) {
			continue
		}
		if state == tx.state && tx.server.store.Follows() {
			tx.read[obj.Key] = obj.Revision
		}
		typed, err := decodeAs[T](served, obj)
		if err != nil {
			return nil, err
		}
		all = append(all, typed)
	}
	return all, nil
}

// decodeAs decodes a stored object in the version of a type.
func decodeAs[T runtime.Object](served servedType, obj *store.Object) (T, error) {
	var none T
	hub, err := served.res.Codec.Load(obj.Data)
	if err != nil {
		return none, err
	}
	if typed, ok := hub.(T); ok {
		return typed, nil
	}
	versioned, err := served.res.Codec.ToVersion(hub, served.name)
	if err != nil {
		return none, err
	}
	return versioned.(T), nil
}

// target returns the kind, the hub and the metadata of an object to write.
func (tx *Tx) target(obj runtime.Object) (*resource.Resource, runtime.Object, metav1.Object, error) {
	served, err := tx.server.typeOf(reflect.TypeOf(obj))
	if err != nil {
		return nil, nil, nil, err
	}
	if tx.server.mirrors[served.res.GroupResource()] != nil {
		return nil, nil, nil, fmt.Errorf("%s has a source and cannot be written in a transaction", served.res.GroupResource())
	}
	hub := obj.DeepCopyObject()
	hub.GetObjectKind().SetGroupVersionKind(served.res.GVK(served.name))
	if hub, err = served.res.Codec.FromVersion(hub); err != nil {
		return nil, nil, nil, err
	}
	object, err := meta.Accessor(hub)
	return served.res, hub, object, err
}

// rulesContext returns the context that a kind's rules get.
func (tx *Tx) rulesContext(res *resource.Resource, verb string, object metav1.Object) context.Context {
	return request.WithRequestInfo(request.WithNamespace(tx.ctx, object.GetNamespace()), &request.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIGroup: res.Group, APIVersion: res.StorageVersion, Resource: res.Plural,
		Namespace: object.GetNamespace(), Name: object.GetName(),
	})
}

// Create adds an object to the transaction. The commit fails with AlreadyExists if the object
// exists.
func (tx *Tx) Create(obj runtime.Object) error {
	res, hub, object, err := tx.target(obj)
	if err != nil {
		return err
	}
	upstream.FillObjectMetaSystemFields(object)
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(res.Strategy.GenerateName(object.GetGenerateName()))
	}
	if err := upstream.BeforeCreate(res.Strategy, tx.rulesContext(res, resource.Create, object), hub); err != nil {
		return err
	}
	key := res.Key(object.GetNamespace(), object.GetName())
	if tx.state.Get(key) != nil {
		return apierrors.NewAlreadyExists(res.GroupResource(), key.Name)
	}
	return tx.put(res, key, hub, object, 0)
}

// Update adds the new state of an object to the transaction. The object must have the
// resourceVersion that was read.
func (tx *Tx) Update(obj runtime.Object) error {
	return tx.update(obj, func(res *resource.Resource) upstream.RESTUpdateStrategy { return res.Strategy })
}

// UpdateStatus adds the new status of an object to the transaction.
func (tx *Tx) UpdateStatus(obj runtime.Object) error {
	return tx.update(obj, func(res *resource.Resource) upstream.RESTUpdateStrategy {
		if sub, ok := res.Subresource("status"); ok {
			return sub.Update.Strategy
		}
		return nil
	})
}

func (tx *Tx) update(obj runtime.Object, strategyOf func(*resource.Resource) upstream.RESTUpdateStrategy) error {
	res, hub, object, err := tx.target(obj)
	if err != nil {
		return err
	}
	strategy := strategyOf(res)
	if strategy == nil {
		return fmt.Errorf("%s has no status", res.GroupResource())
	}
	current, err := tx.current(res, object)
	if err != nil {
		return err
	}
	old, err := res.Codec.Load(current.Data)
	if err != nil {
		return err
	}
	if err := upstream.BeforeUpdate(strategy, tx.rulesContext(res, resource.Update, object), hub, old); err != nil {
		return err
	}
	return tx.put(res, current.Key, hub, object, current.Revision)
}

// Delete adds the deletion of an object to the transaction. The object must have the
// resourceVersion that was read. An object with finalizers remains until they are removed.
func (tx *Tx) Delete(obj runtime.Object) error {
	res, hub, object, err := tx.target(obj)
	if err != nil {
		return err
	}
	current, err := tx.current(res, object)
	if err != nil {
		return err
	}
	if len(object.GetFinalizers()) == 0 {
		tx.writes[current.Key] = store.Op{Key: current.Key, Expect: current.Revision}
		return nil
	}
	if object.GetDeletionTimestamp() == nil {
		object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		object.SetDeletionGracePeriodSeconds(new(int64))
	}
	return tx.put(res, current.Key, hub, object, current.Revision)
}

// current returns the stored state of an object, if it has the object's resourceVersion.
func (tx *Tx) current(res *resource.Resource, object metav1.Object) (*store.Object, error) {
	current := tx.state.Get(res.Key(object.GetNamespace(), object.GetName()))
	switch {
	case current == nil:
		return nil, apierrors.NewNotFound(res.GroupResource(), object.GetName())
	case object.GetResourceVersion() != strconv.FormatUint(current.Revision, 10):
		return nil, apierrors.NewConflict(res.GroupResource(), object.GetName(), errors.New("the object has been modified; read it in the transaction"))
	}
	return current, nil
}

func (tx *Tx) put(res *resource.Resource, key store.Key, hub runtime.Object, object metav1.Object, expect uint64) error {
	if key == tx.own {
		return fmt.Errorf("%s %s: the request itself writes this object; change it in the request", key.Resource, key.Name)
	}
	object.SetResourceVersion("1") // the store replaces this placeholder
	data, err := res.Codec.Store(hub)
	if err != nil {
		return err
	}
	tx.writes[key] = store.Op{Key: key, Data: data, Expect: expect}
	return nil
}
