package workloads

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// registrations postpones the registration of event handlers while controllers are constructed.
// Kubernetes starts its informers after it has constructed all controllers, and several
// constructors register handlers before they have set the fields that these need. Here, another
// group may have started an informer already, which would call a handler at once: that ended the
// whole process.
type registrations struct {
	mu       sync.Mutex
	active   bool
	handlers []*registration
}

// begin postpones the handlers that are registered from now on.
func (r *registrations) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = true
}

// end registers the handlers that were postponed.
func (r *registrations) end() error {
	r.mu.Lock()
	r.active = false
	postponed := r.handlers
	r.handlers = nil
	r.mu.Unlock()
	for _, h := range postponed {
		if err := h.register(); err != nil {
			return err
		}
	}
	return nil
}

// postponing is an informer whose handlers are registered through registrations.
type postponing struct {
	cache.SharedIndexInformer
	registrations *registrations
}

func (i *postponing) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(func() (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandler(h)
	})
}

func (i *postponing) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(func() (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, resync)
	})
}

func (i *postponing) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(func() (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandlerWithOptions(h, options)
	})
}

func (i *postponing) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	if h, ok := handle.(*registration); ok {
		actual := h.remove()
		if actual == nil {
			return nil
		}
		handle = actual
	}
	return i.SharedIndexInformer.RemoveEventHandler(handle)
}

func (i *postponing) add(do func() (cache.ResourceEventHandlerRegistration, error)) (
	cache.ResourceEventHandlerRegistration, error) {
	r := i.registrations
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.active {
		return do()
	}
	h := &registration{do: do}
	r.handlers = append(r.handlers, h)
	return h, nil
}

// registration is the handle of a postponed handler.
type registration struct {
	do func() (cache.ResourceEventHandlerRegistration, error)

	mu      sync.Mutex
	actual  cache.ResourceEventHandlerRegistration // nil before it is registered
	removed bool
}

func (h *registration) register() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.removed {
		return nil
	}
	actual, err := h.do()
	if err != nil {
		return err
	}
	h.actual = actual
	return nil
}

func (h *registration) remove() cache.ResourceEventHandlerRegistration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removed = true
	return h.actual
}

func (h *registration) HasSynced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.actual != nil && h.actual.HasSynced()
}

func (h *registration) HasSyncedChecker() cache.DoneChecker { return checker{h} }

// checker implements cache.DoneChecker.
type checker struct{ h *registration }

func (c checker) Name() string {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.h.actual == nil {
		return "event handler"
	}
	return c.h.actual.HasSyncedChecker().Name()
}

// Done must be called after the construction: controllers wait in Run.
func (c checker) Done() <-chan struct{} {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.h.actual == nil {
		panic("a controller waits for an informer in its constructor")
	}
	return c.h.actual.HasSyncedChecker().Done()
}
