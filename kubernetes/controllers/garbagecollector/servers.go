package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/aggregated"
	"kelson.dev/operator/reflector"
)

// mirror holds the metadata of the objects in other API servers, for all resources that can be
// listed, watched and deleted, as in Kubernetes' collector. It represents them as store objects:
// Data is the metadata, and Key.Resource is the path of the resource in the API, which differs from
// the name of every resource in the store. All methods are safe for concurrent use.
type mirror struct {
	servers *aggregated.Servers
	log     *slog.Logger
	changed func(*store.Event) // called after the mirror has applied the change
	tasks   sync.WaitGroup

	mu       sync.RWMutex
	monitors map[string]*monitor // by resource
	byUID    map[types.UID]*store.Object
	// dependents holds the objects with owners, by the uid of each owner.
	dependents map[types.UID]map[store.Key]*store.Object
}

// monitor follows one resource. It implements [reflector.Sink].
type monitor struct {
	*mirror
	kind     aggregated.Kind
	resource string
	cancel   context.CancelFunc

	// The mirror's mu guards these.
	objects map[store.Key]*store.Object
	ended   bool
}

func newMirror(servers *aggregated.Servers, log *slog.Logger, changed func(*store.Event)) *mirror {
	return &mirror{
		servers: servers, log: log, changed: changed,
		monitors: map[string]*monitor{}, byUID: map[types.UID]*store.Object{},
		dependents: map[types.UID]map[store.Key]*store.Object{},
	}
}

func resourceOf(gvr schema.GroupVersionResource) string {
	return "/apis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
}

// adjust starts and ends monitors so that each resource in discovery has one. When a server stops
// serving a resource, adjust forgets its objects, but does not treat them as deleted.
func (m *mirror) adjust(ctx context.Context) {
	kinds, _ := m.servers.Kinds() // for servers that do not answer: the resources as last listed
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := map[string]bool{}
	for _, kind := range kinds {
		resource := resourceOf(kind.GroupVersionResource)
		if !kind.Supports("list", "watch", "delete") {
			continue
		}
		wanted[resource] = true
		if m.monitors[resource] == nil {
			m.start(ctx, kind, resource)
		}
	}
	for resource, mon := range m.monitors {
		if wanted[resource] {
			continue
		}
		mon.cancel()
		mon.ended = true
		delete(m.monitors, resource)
		for _, obj := range mon.objects {
			m.unindex(obj)
		}
	}
}

// start starts a monitor. The caller holds mu.
func (m *mirror) start(ctx context.Context, kind aggregated.Kind, resource string) {
	ctx, cancel := context.WithCancel(ctx)
	mon := &monitor{mirror: m, kind: kind, resource: resource, cancel: cancel, objects: map[store.Key]*store.Object{}}
	m.monitors[resource] = mon
	m.tasks.Go(func() {
		client, err := m.servers.Client(kind.GroupVersionResource, "")
		if err != nil {
			m.log.Error("follow aggregated resource", "resource", resource, "err", err)
			return
		}
		// Do not use streaming lists: the server may be too old for them. The reflector ends with
		// ctx.
		_ = reflector.New(reflector.Config[*metav1.PartialObjectMetadata]{
			Source: source{client}, Sink: mon, Pages: true,
			Failed: func(err error) { m.log.Debug("follow aggregated resource", "resource", resource, "err", err) },
		}).Run(ctx)
	})
}

// kind returns the kind of a resource of other servers.
func (m *mirror) kind(resource string) (aggregated.Kind, bool) {
	if m == nil {
		return aggregated.Kind{}, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	mon := m.monitors[resource]
	if mon == nil {
		return aggregated.Kind{}, false
	}
	return mon.kind, true
}

// get returns the object with a key, or nil.
func (m *mirror) get(key store.Key) *store.Object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if mon := m.monitors[key.Resource]; mon != nil {
		return mon.objects[key]
	}
	return nil
}

// find returns the object with a uid, or nil.
func (m *mirror) find(uid types.UID) *store.Object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byUID[uid]
}

// dependentsOf returns the objects with an owner.
func (m *mirror) dependentsOf(uid types.UID) []*store.Object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []*store.Object
	for _, obj := range m.dependents[uid] {
		all = append(all, obj)
	}
	return all
}

// index adds an object. The caller holds mu.
func (m *mirror) index(obj *store.Object) {
	m.byUID[obj.Head.UID] = obj
	for _, ref := range obj.Head.Owners {
		if m.dependents[ref.UID] == nil {
			m.dependents[ref.UID] = map[store.Key]*store.Object{}
		}
		m.dependents[ref.UID][obj.Key] = obj
	}
}

// unindex removes an object. The caller holds mu.
func (m *mirror) unindex(obj *store.Object) {
	if m.byUID[obj.Head.UID] == obj {
		delete(m.byUID, obj.Head.UID)
	}
	for _, ref := range obj.Head.Owners {
		if delete(m.dependents[ref.UID], obj.Key); len(m.dependents[ref.UID]) == 0 {
			delete(m.dependents, ref.UID)
		}
	}
}

// Add implements [reflector.Sink].
func (m *monitor) Add(obj *metav1.PartialObjectMetadata) { m.put(obj) }

// Update implements [reflector.Sink].
func (m *monitor) Update(obj *metav1.PartialObjectMetadata) { m.put(obj) }

// Delete implements [reflector.Sink].
func (m *monitor) Delete(obj *metav1.PartialObjectMetadata) {
	m.drop(store.Key{Resource: m.resource, Namespace: obj.Namespace, Name: obj.Name})
}

// Replace implements [reflector.Sink].
func (m *monitor) Replace(items []*metav1.PartialObjectMetadata, _ string) {
	kept := map[store.Key]bool{}
	for _, item := range items {
		kept[store.Key{Resource: m.resource, Namespace: item.Namespace, Name: item.Name}] = true
	}
	m.mu.RLock()
	var gone []store.Key
	for key := range m.objects {
		if !kept[key] {
			gone = append(gone, key)
		}
	}
	m.mu.RUnlock()
	for _, key := range gone {
		m.drop(key)
	}
	for _, item := range items {
		m.put(item)
	}
}

// Bookmark implements [reflector.Sink].
func (m *monitor) Bookmark(string) {}

// Resync implements [reflector.Sink].
func (m *monitor) Resync() {}

func (m *monitor) put(from *metav1.PartialObjectMetadata) {
	obj, err := objectOf(m.resource, from)
	if err != nil {
		m.log.Error("follow aggregated resource", "resource", m.resource, "name", from.Name, "err", err)
		return
	}
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		return
	}
	prev := m.objects[obj.Key]
	if prev != nil {
		m.unindex(prev)
	}
	m.objects[obj.Key] = obj
	m.index(obj)
	m.mu.Unlock()
	switch {
	case prev == nil:
		m.changed(&store.Event{Type: store.Added, Object: obj})
	case prev.Head.UID != obj.Head.UID: // another object with the same name
		m.changed(&store.Event{Type: store.Deleted, Object: prev})
		m.changed(&store.Event{Type: store.Added, Object: obj})
	default:
		m.changed(&store.Event{Type: store.Modified, Object: obj, Prev: prev})
	}
}

func (m *monitor) drop(key store.Key) {
	m.mu.Lock()
	obj := m.objects[key]
	exists := obj != nil && !m.ended
	if exists {
		delete(m.objects, key)
		m.unindex(obj)
	}
	m.mu.Unlock()
	if exists {
		m.changed(&store.Event{Type: store.Deleted, Object: obj})
	}
}

// objectOf returns an object of another server as a store object, with the fields that the
// collector needs.
func objectOf(resource string, from *metav1.PartialObjectMetadata) (*store.Object, error) {
	kept := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion,
		OwnerReferences: from.OwnerReferences, Finalizers: from.Finalizers,
	}}
	data, err := json.Marshal(&kept)
	if err != nil {
		return nil, err
	}
	obj := &store.Object{Key: store.Key{Resource: resource, Namespace: from.Namespace, Name: from.Name}, Data: data}
	obj.Head = store.Head{UID: from.UID, Finalizers: from.Finalizers}
	if from.DeletionTimestamp != nil {
		obj.Head.DeletionTimestamp = from.DeletionTimestamp.Time
	}
	for _, ref := range from.OwnerReferences {
		obj.Head.Owners = append(obj.Head.Owners, store.Owner{
			APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID,
			Controller: ref.Controller != nil && *ref.Controller, BlockOwnerDeletion: ref.BlockOwnerDeletion != nil &&
				*ref.BlockOwnerDeletion,
		})
	}
	return obj, nil
}

// source reads a resource of another server.
type source struct{ metadata.ResourceInterface }

// List implements [reflector.Source].
func (s source) List(ctx context.Context, opts reflector.ListOptions) (
	reflector.Page[*metav1.PartialObjectMetadata], error) {
	page := reflector.Page[*metav1.PartialObjectMetadata]{}
	list, err := s.ResourceInterface.List(ctx, metav1.ListOptions{Limit: opts.Limit, Continue: opts.Continue})
	if err != nil {
		return page, err
	}
	for i := range list.Items {
		page.Items = append(page.Items, &list.Items[i])
	}
	page.Version, page.Continue = list.ResourceVersion, list.Continue
	return page, nil
}

// Watch implements [reflector.Source].
func (s source) Watch(ctx context.Context, opts reflector.WatchOptions) (watch.Interface, error) {
	seconds := int64(opts.Timeout.Seconds())
	return s.ResourceInterface.Watch(ctx, metav1.ListOptions{ResourceVersion: opts.Version, AllowWatchBookmarks: true,
		TimeoutSeconds: &seconds})
}

// graph is the state of all servers: a snapshot of the store and the mirror.
type graph struct {
	sn     *store.Snapshot
	mirror *mirror // nil: there are no other servers
}

func (g graph) get(key store.Key) *store.Object {
	if g.mirror != nil && isRemote(key.Resource) {
		return g.mirror.get(key)
	}
	return g.sn.Get(key)
}

func (g graph) byUID(uid types.UID) *store.Object {
	obj := g.sn.ByUID(uid)
	if obj == nil && g.mirror != nil {
		obj = g.mirror.find(uid)
	}
	return obj
}

func (g graph) dependents(uid types.UID) iter.Seq[*store.Object] {
	if g.mirror == nil {
		return g.sn.Dependents(uid)
	}
	return func(yield func(*store.Object) bool) {
		for obj := range g.sn.Dependents(uid) {
			if !yield(obj) {
				return
			}
		}
		for _, obj := range g.mirror.dependentsOf(uid) {
			if !yield(obj) {
				return
			}
		}
	}
}

// isRemote reports whether a resource belongs to another server.
func isRemote(resource string) bool { return resource != "" && resource[0] == '/' }

// metadataOf returns the metadata of an object of another server.
func metadataOf(obj *store.Object) (*metav1.PartialObjectMetadata, error) {
	out := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(obj.Data, out); err != nil {
		return nil, fmt.Errorf("decode metadata of %s: %w", obj.Key.Name, err)
	}
	return out, nil
}
