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
// Reads with [Get] and [List] return objects that the caller may change. They contain the writes of
// the transaction itself, and further writes of the same object build on these: a Create or Update
// and an UpdateStatus are committed as one write. A written object keeps the resourceVersion that
// it had when it was read, and a created one has none until the commit. Objects of kinds with a
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
	return &Tx{ctx: ctx, server: s, state: state, read: map[store.Key]uint64{}, lists: map[string]bool{},
		writes: map[store.Key]store.Op{}}, nil
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
	if op, written := tx.writes[key]; written && op.Data != nil {
		hub, err := pending(served.res, op)
		if err != nil {
			return none, err
		}
		return hubAs[T](served, hub)
	} else if written {
		return none, apierrors.NewNotFound(served.res.GroupResource(), name)
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
		if _, written := tx.writes[obj.Key]; written {
			continue
		}
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
	return listPending(tx, served, namespace, selector, all)
}

// listPending adds the objects that the transaction writes to a list without them.
func listPending[T runtime.Object](tx *Tx, served servedType, namespace string, selector labels.Selector,
	all []T) ([]T, error) {
	stored := len(all)
	for key, op := range tx.writes {
		if op.Data == nil || key.Resource != served.res.Prefix() || namespace != "" && key.Namespace != namespace {
			continue
		}
		hub, err := pending(served.res, op)
		if err != nil {
			return nil, err
		}
		object, err := meta.Accessor(hub)
		if err != nil {
			return nil, err
		}
		if selector != nil && !selector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		typed, err := hubAs[T](served, hub)
		if err != nil {
			return nil, err
		}
		all = append(all, typed)
	}
	if len(all) == stored {
		return all, nil
	}
	keys := make(map[runtime.Object][]string, len(all))
	for _, obj := range all {
		object, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		keys[obj] = []string{object.GetNamespace(), object.GetName()}
	}
	slices.SortFunc(all, func(a, b T) int { return slices.Compare(keys[a], keys[b]) })
	return all, nil
}

// pending returns the hub of an object that the transaction creates or updates.
func pending(res *resource.Resource, op store.Op) (runtime.Object, error) {
	hub, err := res.Codec.Load(op.Data)
	if err != nil {
		return nil, err
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	object.SetResourceVersion(readVersion(op.Expect))
	return hub, nil
}

// readVersion returns the resourceVersion of an object that was read at a revision, or "" for an
// object that the transaction creates.
func readVersion(revision uint64) string {
	if revision == 0 {
		return ""
	}
	return strconv.FormatUint(revision, 10)
}

// decodeAs decodes a stored object in the version of a type.
func decodeAs[T runtime.Object](served servedType, obj *store.Object) (T, error) {
	var none T
	hub, err := served.res.Codec.Load(obj.Data)
	if err != nil {
		return none, err
	}
	return hubAs[T](served, hub)
}

// hubAs returns a hub in the version of a type. The result may be the hub itself.
func hubAs[T runtime.Object](served servedType, hub runtime.Object) (T, error) {
	var none T
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
		return nil, nil, nil, fmt.Errorf("%s has a source and cannot be written in a transaction",
			served.res.GroupResource())
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
// exists. An object that the transaction deletes exists until the commit.
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
	if _, written := tx.writes[key]; written || tx.state.Get(key) != nil {
		return apierrors.NewAlreadyExists(res.GroupResource(), key.Name)
	}
	return tx.put(res, key, hub, object, 0)
}

// Update adds the new state of an object to the transaction. The object must have the
// resourceVersion that was read. An object that is being deleted is removed when it has no more
// finalizers.
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
	old, err := tx.current(res, object)
	if err != nil {
		return err
	}
	if old.revision == 0 { // validation requires a resourceVersion
		object.SetResourceVersion(unwritten)
		old.object.SetResourceVersion(unwritten)
	}
	if err := upstream.BeforeUpdate(strategy, tx.rulesContext(res, resource.Update, object), hub, old.hub); err != nil {
		return err
	}
	if object.GetDeletionTimestamp() != nil && resource.Unheld(object) {
		return tx.remove(old)
	}
	return tx.put(res, old.key, hub, object, old.revision)
}

// Delete adds the deletion of an object to the transaction, without a grace period. The object must
// have the resourceVersion that was read; its other fields have no effect. An object with
// finalizers remains until they are removed.
func (tx *Tx) Delete(obj runtime.Object) error {
	res, _, object, err := tx.target(obj)
	if err != nil {
		return err
	}
	old, err := tx.current(res, object)
	if err != nil {
		return err
	}
	if len(old.object.GetFinalizers()) == 0 {
		return tx.remove(old)
	}
	since, now := old.object.GetDeletionTimestamp(), time.Now()
	if since == nil && old.object.GetGeneration() > 0 {
		old.object.SetGeneration(old.object.GetGeneration() + 1)
	}
	if since == nil || since.After(now) {
		old.object.SetDeletionTimestamp(&metav1.Time{Time: now})
	}
	old.object.SetDeletionGracePeriodSeconds(new(int64))
	return tx.put(res, old.key, old.hub, old.object, old.revision)
}

// present is the state of an object that a write of the transaction begins with.
type present struct {
	key      store.Key
	hub      runtime.Object
	object   metav1.Object // the metadata of hub
	revision uint64        // of the stored object; 0: the transaction creates the object
}

// current returns the state of an object, if it has the object's resourceVersion.
func (tx *Tx) current(res *resource.Resource, object metav1.Object) (*present, error) {
	old := &present{key: res.Key(object.GetNamespace(), object.GetName())}
	stored := tx.state.Get(old.key)
	op, written := tx.writes[old.key]
	var err error
	switch {
	case written && op.Data == nil, !written && stored == nil:
		return nil, apierrors.NewNotFound(res.GroupResource(), object.GetName())
	case written:
		old.revision = op.Expect
		old.hub, err = pending(res, op)
	default:
		old.revision = stored.Revision
		old.hub, err = res.Codec.Load(stored.Data)
	}
	if err != nil {
		return nil, err
	}
	if object.GetResourceVersion() != readVersion(old.revision) {
		return nil, apierrors.NewConflict(res.GroupResource(), object.GetName(),
			errors.New("the object has been modified; read it in the transaction"))
	}
	old.object, err = meta.Accessor(old.hub)
	return old, err
}

// unwritten is the resourceVersion of an object that is not committed. The store replaces it.
const unwritten = "1"

func (tx *Tx) put(res *resource.Resource, key store.Key, hub runtime.Object, object metav1.Object,
	expect uint64) error {
	object.SetResourceVersion(unwritten)
	data, err := res.Codec.Store(hub)
	if err != nil {
		return err
	}
	return tx.write(store.Op{Key: key, Data: data, Expect: expect})
}

// remove deletes an object. The deletion of an object that the transaction created leaves no write.
func (tx *Tx) remove(old *present) error {
	if old.revision == 0 {
		delete(tx.writes, old.key)
		tx.read[old.key] = 0
		return nil
	}
	return tx.write(store.Op{Key: old.key, Expect: old.revision})
}

func (tx *Tx) write(op store.Op) error {
	if op.Key == tx.own {
		return fmt.Errorf("%s %s: the request itself writes this object; change it in the request", op.Key.Resource,
			op.Key.Name)
	}
	tx.writes[op.Key] = op
	return nil
}
