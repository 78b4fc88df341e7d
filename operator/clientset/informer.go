package clientset

import (
	"k8s.io/client-go/tools/cache"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Informer is the shared copy of one kind, with client-go's handlers.
type Informer struct {
	shared informer.Informer
	err    error
}

// Shared is the informer itself, nil if there is none; then every method says why.
func (i *Informer) Shared() informer.Informer { return i.shared }

// AddEventHandler adds a handler. It has a buffer and a goroutine of its own.
func (i *Informer) AddEventHandler(h cache.ResourceEventHandler) (*Registration, error) {
	if i.err != nil {
		return nil, i.err
	}
	r, err := i.shared.AddHandler(handler{h})
	if err != nil {
		return nil, err
	}
	return &Registration{r}, nil
}

// RemoveEventHandler ends a handler's subscription.
func (i *Informer) RemoveEventHandler(r *Registration) error {
	r.registration.Remove()
	return i.err
}

// AddIndexers adds index functions by their names.
func (i *Informer) AddIndexers(indexers cache.Indexers) error {
	if i.err != nil {
		return i.err
	}
	for name, index := range indexers {
		err := i.shared.AddIndex(name, func(obj client.Object) []string {
			values, err := index(obj)
			if err != nil {
				return nil
			}
			return values
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ByIndex is the objects that an index finds under a value.
func (i *Informer) ByIndex(name, value string) ([]client.Object, error) {
	if i.err != nil {
		return nil, i.err
	}
	return i.shared.ByIndex(name, value)
}

// HasSynced says that the first list is there.
func (i *Informer) HasSynced() bool {
	if i.err != nil {
		return false
	}
	return closed(i.shared.Synced())
}

// Registration is one handler's subscription.
type Registration struct{ registration informer.Registration }

// HasSynced says that the handler was given everything that was there when it was added.
func (r *Registration) HasSynced() bool { return closed(r.registration.Synced()) }

// Synced is closed when HasSynced becomes true.
func (r *Registration) Synced() <-chan struct{} { return r.registration.Synced() }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// handler tells client-go's kind of handler what an informer says.
type handler struct{ to cache.ResourceEventHandler }

func (h handler) OnAdd(obj client.Object, initial bool) { h.to.OnAdd(obj, initial) }
func (h handler) OnUpdate(old, obj client.Object)       { h.to.OnUpdate(old, obj) }

func (h handler) OnDelete(obj client.Object, stale bool) {
	if stale {
		h.to.OnDelete(cache.DeletedFinalStateUnknown{Key: cache.MetaObjectToName(obj).String(), Obj: obj})
		return
	}
	h.to.OnDelete(obj)
}
