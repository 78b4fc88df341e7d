package informer

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reflector"
)

// part is the part of an informer that one reflector feeds: one namespace, or everything.
type part struct {
	informer  *informer
	namespace string
	renew     chan struct{} // a value reopens the watch

	// Guarded by the informer's lock.
	synced bool
	// progress is the version up to which all events were received; 0 while unknown.
	progress   uint64
	progressed time.Time // time of the last event, bookmark or list
	failing    failures
}

var _ reflector.Sink[client.Object] = (*part)(nil)

func (p *part) Add(obj client.Object)    { p.put(obj) }
func (p *part) Update(obj client.Object) { p.put(obj) }

func (p *part) put(obj client.Object) {
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	i.put(obj)
	p.advance(obj.GetResourceVersion())
	i.pending(client.KeyOf(obj)) // drops the entry if the copy contains it now
}

// put stores an object and queues a notification for the handlers. The caller holds the lock.
func (i *informer) put(obj client.Object) {
	old, had := i.objs.Get(client.KeyOf(obj))
	if had && old.GetUID() != obj.GetUID() {
		// An object with the same name replaced the old one, and the deletion event was missed.
		i.remove(client.KeyOf(old))
		i.notify(&notification{kind: deleted, obj: old, flag: true})
		had = false
	}
	i.objs.Put(obj)
	n := &notification{kind: added, obj: obj, flag: !i.isSynced, visibleSince: i.writtenAs(obj)}
	if n.visibleSince.IsZero() && i.isSynced && !i.several.Load() {
		n.visibleSince = time.Now()
	}
	if had {
		n.kind, n.old, n.flag = updated, old, false
	}
	i.notify(n)
}

// remove deletes an object from the copy. The caller holds the lock.
func (i *informer) remove(key client.Key) bool {
	delete(i.applied, key)
	_, had := i.objs.Delete(key)
	return had
}

func (p *part) Delete(obj client.Object) {
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.remove(client.KeyOf(obj)) {
		i.notify(&notification{kind: deleted, obj: obj})
	}
	p.advance(obj.GetResourceVersion())
	i.pending(client.KeyOf(obj))
}

func (p *part) Replace(objs []client.Object, version string) {
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	kept := make(map[client.Key]bool, len(objs))
	for _, obj := range objs {
		key := client.KeyOf(obj)
		kept[key] = true
		if old, had := i.objs.Get(key); had && isUnchanged(old, obj) {
			continue // unchanged
		}
		i.put(obj)
	}
	for _, old := range i.objs.List() {
		key := client.KeyOf(old)
		if !kept[key] && (p.namespace == "" || key.Namespace == p.namespace) {
			i.remove(key)
			i.notify(&notification{kind: deleted, obj: old, flag: true})
		}
	}
	rewritten := parseVersion(version) < p.progress
	p.progress, p.synced = 0, true
	p.advance(version)
	i.sweep(rewritten)
	i.checkSynced()
}

// isUnchanged reports whether two objects of the same key are certainly the same state. Objects
// that the server computes, such as metrics, have no resourceVersion.
func isUnchanged(old, obj client.Object) bool {
	return old.GetUID() == obj.GetUID() && old.GetResourceVersion() == obj.GetResourceVersion() &&
		obj.GetResourceVersion() != ""
}

func (p *part) Bookmark(version string) {
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	p.advance(version)
	i.sweep(false)
}

func (p *part) Resync() {
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, obj := range i.objs.List() {
		i.notify(&notification{kind: updated, old: obj, obj: obj})
	}
}

func (p *part) failed(err error) { p.informer.failed(&p.failing, err, p.namespace) }

// opened records that the server has accepted a watch. Before the first list, only a list ends the
// failure.
func (p *part) opened() {
	i := p.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.synced && p.failing.err != nil {
		p.recovered()
		i.broadcast()
	}
}

// advance records that all events up to a version were received. The caller holds the lock.
func (p *part) advance(version string) {
	p.progress = max(p.progress, parseVersion(version))
	p.progressed = time.Now()
	if p.failing.err != nil {
		p.recovered()
	}
	p.informer.broadcast()
}

// notify queues a notification for every handler. The caller holds the lock.
func (i *informer) notify(n *notification) {
	for _, h := range i.handlers {
		h.buffer.push(n)
	}
}

// checkSynced marks the informer as synced when all parts have their first list. The caller holds
// the lock.
func (i *informer) checkSynced() {
	if i.isSynced {
		return
	}
	for _, p := range i.parts {
		if !p.synced {
			return
		}
	}
	i.isSynced = true
	close(i.synced)
	i.notify(&notification{kind: complete})
	i.broadcast()
}

// parseVersion returns a resourceVersion as a number (KEP-5504), or 0 if it is not a number.
func parseVersion(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}

// source reads one namespace of the informer's scope from the server.
type source struct {
	client    client.Client
	ahead     *client.Ahead // nil except during a list
	prototype client.Object
	scope     client.ListOptions
}

func (i *informer) source(namespace string) *source {
	s := &source{
		client:    i.set.cfg.Client,
		prototype: i.format.newObject(),
		scope:     client.ListOptions{Namespace: namespace, Labels: i.scope.Labels, Fields: i.scope.Fields, Live: true},
	}
	if i.format.form == Compact {
		s.prototype = client.NewEncoded(s.prototype)
	}
	if i.format.transform == nil { // Transform may modify its argument
		s.scope.Shared = true
		if i.format.form == Full {
			s.scope.Known = answers{i}
		}
	}
	return s
}

// answers has the responses to own writes that the watch is about to deliver.
type answers struct{ *informer }

func (a answers) Some() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.written) > 0
}

func (a answers) Object(head metav1.ObjectMeta) client.Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.written[client.Key{Namespace: head.Namespace, Name: head.Name}]
	if !ok || e.kind != present || !e.whole || e.uid != head.UID || e.obj.GetResourceVersion() != head.ResourceVersion {
		return nil
	}
	return e.obj
}

func (s *source) List(ctx context.Context, opts reflector.ListOptions) (reflector.Page[client.Object], error) {
	o := s.scope
	o.Limit, o.Continue = opts.Limit, opts.Continue
	if opts.Continue == "" || s.ahead == nil { // nil also after an error
		s.ahead = &client.Ahead{}
	}
	o.Ahead = s.ahead
	items := client.NewItems(s.prototype)
	err := s.client.List(ctx, items, o)
	if err != nil || items.Continue == "" {
		s.ahead = nil
	}
	if err != nil {
		return reflector.Page[client.Object]{}, err
	}
	return reflector.Page[client.Object]{Items: items.Items, Version: items.ResourceVersion, Continue: items.Continue},
		nil
}

// Version implements reflector.Versioned.
func (s *source) Version(ctx context.Context) (string, error) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(s.prototype.GetObjectKind().GroupVersionKind())
	items := client.NewItems(metadata)
	o := s.scope
	o.Limit, o.Known = 1, nil
	err := s.client.List(ctx, items, o)
	return items.ResourceVersion, err
}

func (s *source) Watch(ctx context.Context, opts reflector.WatchOptions) (watch.Interface, error) {
	o := s.scope
	o.ResourceVersion, o.InitialEvents, o.Timeout, o.Bookmarks = opts.Version, opts.InitialEvents, opts.Timeout, true
	return s.client.Watch(ctx, client.NewItems(s.prototype), o)
}
