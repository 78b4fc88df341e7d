package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// Source is another system whose data a kind shows: metrics, a table of a database, another API. T
// is the pointer type of the kind's hub. List returns all objects; they need a name, and a
// namespace if the kind is namespaced. It is never called concurrently with itself, and must return
// within a minute. The server compares two results to find the changes, so that get, list, watch,
// selectors, pages and tables work as for stored objects. The server keeps the newest result in
// memory. A panic of a method of the source, or of a rule of the kind, fails the request or the
// read.
//
// The server cannot hold a deletion, because the source decides which objects exist. Clients
// therefore cannot add finalizers to the objects, and the server ignores propagation policies; it
// shows finalizers that the source lists.
//
// A source may also implement [Notifier], [Creator], [Updater] and [Deleter]. The kind has the
// verbs for which the source has methods, besides get, list and watch.
type Source[T runtime.Object] interface {
	List(ctx context.Context) ([]T, error)
}

// Notifier is a Source that reports changes. Notify calls changed whenever the data may have
// changed and returns when ctx ends or the connection fails; then it is called again after a
// second. Watches of other sources see changes when the data is read again; see [MaxAge].
type Notifier interface {
	Notify(ctx context.Context, changed func()) error
}

// Creator, Updater and Deleter are sources that can be written. They are called after validation
// and admission. An error rejects the write and should be one of apierrors. If two writers update
// an object at the same time, the source decides about the second one.
type (
	Creator[T any] interface {
		Create(ctx context.Context, obj T) error
	}
	Updater[T any] interface {
		Update(ctx context.Context, obj, old T) error
	}
	Deleter[T any] interface {
		Delete(ctx context.Context, obj T) error
	}
)

// MaxAge is how old data of a [Source] may be when a client reads it; 0 reads the source for every
// request. Watches read it at this interval, but not more often than every second.
type MaxAge time.Duration

// From makes a kind show the objects of a source instead of stored ones.
func From[T runtime.Object](source Source[T], maxAge MaxAge) KindOption {
	return kindFunc(func(k *kind) {
		if _, ok := k.hub().proto.(T); !ok {
			k.fail("source of %s lists %s, and the hub is %T", k.name, reflect.TypeFor[T](), k.hub().proto)
			return
		}
		k.source = func(s *Server, k *kind, res *resource.Resource) (*mirror, error) {
			st, err := store.Open(store.Config{})
			if err != nil {
				return nil, err
			}
			m := &mirror{kind: k, res: res, store: st, maxAge: time.Duration(maxAge), stale: true, ctx: s.ctx}
			m.list = func(ctx context.Context) ([]runtime.Object, error) {
				all, err := source.List(ctx)
				objects := make([]runtime.Object, len(all))
				for i, obj := range all {
					objects[i] = obj
				}
				return objects, err
			}
			if n, ok := source.(Notifier); ok {
				m.notify = n.Notify
			}
			res.Verbs = []string{resource.Get, resource.List, resource.Watch}
			res.Hooks = writeThrough[T](source, m, res)
			res.Behavior.Delete.NoPropagation = true
			return m, nil
		}
	})
}

type sourceMaker func(s *Server, k *kind, res *resource.Resource) (*mirror, error)

// writeThrough returns hooks that write to the source before the mirror, and adds the verbs.
func writeThrough[T runtime.Object](source any, m *mirror, res *resource.Resource) *resource.Hooks {
	hooks := &resource.Hooks{}
	if c, ok := source.(Creator[T]); ok {
		res.Verbs = append(res.Verbs, resource.Create)
		hooks.OnCreate = func(ctx context.Context, hub runtime.Object, dryRun bool) ([]store.Op, func(), error) {
			return nil, m.expire, unlessDryRun(dryRun, func() error { return c.Create(ctx, hub.DeepCopyObject().(T)) })
		}
	}
	if u, ok := source.(Updater[T]); ok {
		res.Verbs = append(res.Verbs, resource.Patch, resource.Update)
		hooks.OnUpdate = func(ctx context.Context, hub, old runtime.Object, dryRun bool) ([]store.Op, func(), error) {
			return nil, m.expire, unlessDryRun(dryRun, func() error {
				return u.Update(ctx, hub.DeepCopyObject().(T), old.DeepCopyObject().(T))
			})
		}
	}
	if d, ok := source.(Deleter[T]); ok {
		res.Verbs = append(res.Verbs, resource.Delete, resource.DeleteCollection)
		hooks.OnDelete = func(ctx context.Context, hub runtime.Object, dryRun bool) error {
			return unlessDryRun(dryRun, func() error { return d.Delete(ctx, hub.DeepCopyObject().(T)) })
		}
	}
	hooks.AfterCommit = func(context.Context, runtime.Object, runtime.Object, *store.Object) { m.expire() }
	return hooks
}

func unlessDryRun(dryRun bool, do func() error) error {
	if dryRun {
		return nil
	}
	return do()
}

// mirror keeps the newest state of a source in its own store. The verbs work on that store.
type mirror struct {
	kind   *kind
	res    *resource.Resource
	store  *store.Store
	verbs  *rest.Handler
	maxAge time.Duration
	list   func(context.Context) ([]runtime.Object, error)
	notify func(context.Context, func()) error // may be nil

	ctx context.Context // context of the server, for reads

	mu         sync.Mutex
	inProgress *reading  // nil: no read is in progress
	read       time.Time // when the last complete read began
	stale      bool      // the data changed since
	changed    uint64    // counts calls of expire
	writers    int       // number of client writes in progress
	wrote      uint64    // counts writes of clients
}

// notifyAgain is the delay before a failed Notifier is called again, and the minimum interval at
// which watches read the source.
const notifyAgain = time.Second

// run follows the notifications of the source until ctx ends.
func (m *mirror) run(ctx context.Context) {
	if m.notify == nil {
		return
	}
	for ctx.Err() == nil {
		_ = m.follow(ctx) // the next read returns the error of the source
		select {
		case <-ctx.Done():
		case <-time.After(notifyAgain):
		}
	}
}

// follow calls the Notifier once.
func (m *mirror) follow(ctx context.Context) (err error) {
	defer m.recovered("Notify", &err)
	return m.notify(ctx, func() {
		m.expire()
		_ = m.refresh(ctx)
	})
}

// expire makes the next refresh read the source.
func (m *mirror) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = true
	m.changed++
}

// fresh reports whether the mirror is recent enough for a request that arrived at the given time.
// The caller holds mu.
func (m *mirror) fresh(arrived time.Time) bool {
	if !m.read.Before(arrived) {
		return true
	}
	return !m.stale && (m.notify != nil || !m.read.Before(arrived.Add(-m.maxAge)))
}

// refresh reads the source unless the mirror is new enough. It returns when ctx ends, even if the
// source hangs.
func (m *mirror) refresh(ctx context.Context) error {
	for arrived := time.Now(); ; {
		r := m.join(arrived)
		if r == nil {
			return nil
		}
		select {
		case <-r.done:
			if r.err != nil {
				return r.err
			}
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", m.res.GroupResource(), ctx.Err())
		}
	}
}

// reading is a read of the source in progress.
type reading struct {
	done chan struct{}
	err  error // set before done is closed
}

// readTimeout limits how long a read of a source may take.
const readTimeout = time.Minute

// join returns the read that is in progress, or starts one. It returns nil if the mirror is new
// enough.
func (m *mirror) join(arrived time.Time) *reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fresh(arrived) {
		return nil
	}
	if m.inProgress != nil {
		return m.inProgress
	}
	r := &reading{done: make(chan struct{})}
	m.inProgress = r
	started, seen := time.Now(), m.changed
	go func() {
		ctx, cancel := context.WithTimeout(m.ctx, readTimeout)
		defer cancel()
		applied, err := false, error(nil)
		for attempts := 0; attempts < 3 && !applied && err == nil; attempts++ {
			applied, err = m.readOnce(ctx)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		defer close(r.done)
		m.inProgress = nil
		if err != nil {
			r.err = fmt.Errorf("read %s: %w", m.res.GroupResource(), err)
			return
		}
		m.read, m.stale = started, !applied || m.changed != seen
	}()
	return r
}

// readOnce reads the source and applies the result. If a client writes during the read, the result
// may lack that write. readOnce then discards it, because the mirror already has the write.
func (m *mirror) readOnce(ctx context.Context) (applied bool, err error) {
	defer m.recovered("List", &err)
	m.mu.Lock()
	writers, wrote := m.writers, m.wrote
	m.mu.Unlock()
	objects, err := m.list(ctx)
	if err != nil {
		return false, err
	}
	m.mu.Lock() // no write can begin
	defer m.mu.Unlock()
	if writers > 0 || m.writers > 0 || m.wrote != wrote {
		return false, nil
	}
	return true, m.apply(ctx, objects)
}

// recovered logs a panic of the source or of a rule of its kind, and turns it into an error. It
// must be deferred in goroutines that belong to no request.
func (m *mirror) recovered(method string, err *error) {
	if p := recover(); p != nil {
		slog.Error("panic in a source", "method", method, "resource", m.res.GroupResource(), "panic", p,
			"stack", string(debug.Stack()))
		*err = fmt.Errorf("panic in the method %s of the source; see the log of the server", method)
	}
}

// writing counts a write of a client from before the source is written until after the mirror is.
func (m *mirror) writing() (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writers++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.writers--
		m.wrote++
	}
}

// apply commits the differences between the mirror and a new state, as one unit.
func (m *mirror) apply(ctx context.Context, objects []runtime.Object) error {
	state := m.store.Snapshot()
	seen := make(map[store.Key]bool, len(objects))
	var ops []store.Op
	for _, obj := range objects {
		op, err := m.op(state, obj)
		if err != nil {
			return err
		}
		if seen[op.Key] {
			return fmt.Errorf("the source of %s lists %s/%s twice", m.res.GroupResource(), op.Key.Namespace,
				op.Key.Name)
		}
		seen[op.Key] = true
		if op.Data != nil {
			ops = append(ops, op)
		}
	}
	for obj := range state.Scan(m.res.Prefix(), "", store.Key{}) {
		if !seen[obj.Key] {
			ops = append(ops, store.Op{Key: obj.Key, Expect: store.AnyRevision})
		}
	}
	_, err := m.store.Commit(ctx, ops...)
	return err
}

// op returns the write of an object; its Data is nil if the object did not change.
func (m *mirror) op(state *store.Snapshot, obj runtime.Object) (store.Op, error) {
	hub := obj.DeepCopyObject()
	hub.GetObjectKind().SetGroupVersionKind(m.kind.gvk(m.kind.hub().name))
	object, err := meta.Accessor(hub)
	if err != nil {
		return store.Op{}, err
	}
	if object.GetName() == "" || m.res.Namespaced != (object.GetNamespace() != "") {
		return store.Op{}, fmt.Errorf("the source of %s lists %q in the namespace %q", m.res.GroupResource(),
			object.GetName(), object.GetNamespace())
	}
	key := m.res.Key(object.GetNamespace(), object.GetName())
	current := state.Get(key)
	if err := m.keep(current, object); err != nil {
		return store.Op{}, err
	}
	object.SetUID(cmp.Or(object.GetUID(), m.uid(key)))
	object.SetResourceVersion("1")
	if current != nil {
		object.SetResourceVersion(strconv.FormatUint(current.Revision, 10))
	}
	data, err := m.res.Codec.Store(hub)
	if err != nil || current != nil && bytes.Equal(data, current.Data) {
		return store.Op{Key: key}, err
	}
	return store.Op{Key: key, Data: data, Expect: store.AnyRevision}, nil
}

// keep copies the metadata that other systems rarely store from the present state of an object: the
// uid, the creation time, the generation, and the owners of fields.
func (m *mirror) keep(current *store.Object, object metav1.Object) error {
	if current == nil {
		return nil
	}
	object.SetUID(cmp.Or(object.GetUID(), current.Head.UID))
	object.SetGeneration(cmp.Or(object.GetGeneration(), current.Head.Generation))
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.NewTime(current.Head.CreationTimestamp))
	}
	if len(m.res.Verbs) == readVerbs || object.GetManagedFields() != nil {
		return nil
	}
	hub, err := m.res.Codec.Load(current.Data)
	if err != nil {
		return err
	}
	present, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	object.SetManagedFields(present.GetManagedFields())
	return nil
}

// readVerbs is the number of verbs of a read-only source.
const readVerbs = 3

// uid derives a uid from the key, so that it is the same after a restart.
func (m *mirror) uid(key store.Key) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(key.Resource+"/"+key.Namespace+"/"+key.Name)).String())
}

// serve refreshes the mirror and runs a verb over it.
func (m *mirror) serve(w http.ResponseWriter, req *http.Request, info *request.RequestInfo) {
	if err := m.refresh(req.Context()); err != nil {
		wire.Error(w, req, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	if !resource.ReadOnly(info.Verb) {
		defer m.writing()()
	}
	if info.Verb == resource.Watch && m.notify == nil {
		ctx, cancel := context.WithCancel(req.Context())
		var polling sync.WaitGroup
		polling.Go(func() { m.poll(ctx) })
		defer polling.Wait()
		defer cancel()
	}
	m.verbs.ServeHTTP(w, req)
}

// poll reads the source at an interval for a watch. All watches of a kind share the reads.
func (m *mirror) poll(ctx context.Context) {
	tick := time.NewTicker(max(m.maxAge, notifyAgain))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = m.refresh(ctx) // the watch continues with the state that it has
		}
	}
}
