package clientset

import (
	"k8s.io/client-go/tools/cache"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Informer is the shared copy of one kind, with client-go's handler interface.
type Informer struct {
	shared informer.Informer
	err    error
}

// Shared returns the underlying informer; nil after an error, which every method then returns.
func (i *Informer) Shared() informer.Informer { return i.shared }

// AddEventHandler adds a handler, which has its own buffer and goroutine.
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

// RemoveEventHandler removes a handler.
func (i *Informer) RemoveEventHandler(r *Registration) error {
	r.registration.Remove()
	return i.err
}

// AddIndexers adds named index functions.
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

// ByIndex returns the objects that an index has under a value.
func (i *Informer) ByIndex(name, value string) ([]client.Object, error) {
	if i.err != nil {
		return nil, i.err
	}
	return i.shared.ByIndex(name, value)
}

// HasSynced reports whether the first list is complete.
func (i *Informer) HasSynced() bool {
	if i.err != nil {
		return false
	}
	return closed(i.shared.Synced())
}

// Registration is the subscription of a handler.
type Registration struct{ registration informer.Registration }

// HasSynced reports whether the handler has received all objects that existed when it was added.
func (r *Registration) HasSynced() bool { return closed(r.registration.Synced()) }

// Synced returns a channel that is closed when HasSynced becomes true.
func (r *Registration) Synced() <-chan struct{} { return r.registration.Synced() }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// handler adapts a client-go handler to an informer.Handler.
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
