package informer

import (
	"context"
	"sync"
	"time"

	"kelson.dev/operator/client"
)

type notificationKind int

const (
	added notificationKind = iota
	updated
	deleted
	complete // all objects present when the handler was added have been delivered
)

// notification is one call to each of the handlers. flag is the parameter initial or stale.
type notification struct {
	kind         notificationKind
	flag         bool
	old, obj     client.Object
	visibleSince time.Time // reads after this time see the state; zero if unknown

	open sync.Once // decodes the objects on first use
}

// decode decodes both objects. Objects that can't be decoded become nil.
func (n *notification) decode(i *informer) {
	if i.format.form != Compact {
		return
	}
	n.open.Do(func() {
		if n.obj = i.format.whole(n.obj); n.old != nil {
			n.old = i.format.whole(n.old)
		}
	})
}

// registration calls one handler from a goroutine of its own.
type registration struct {
	informer *informer
	handler  Handler
	buffer   *ring[*notification]
	synced   chan struct{}

	once    sync.Once
	removed chan struct{}
}

func newRegistration(i *informer, h Handler) *registration {
	return &registration{
		informer: i,
		handler:  h,
		buffer:   newRing[*notification](),
		synced:   make(chan struct{}),
		removed:  make(chan struct{}),
	}
}

func (r *registration) Synced() <-chan struct{} { return r.synced }

// Remove may be called from the handler itself. It does not wait for a running call.
func (r *registration) Remove() {
	r.once.Do(func() {
		close(r.removed)
		r.informer.removeHandler(r)
	})
}

func (r *registration) run(ctx context.Context) {
	for {
		n, ok := r.buffer.pop()
		if !ok {
			select {
			case <-r.buffer.filled:
			case <-r.removed:
				return
			case <-ctx.Done():
				return
			}
			continue
		}
		select {
		case <-r.removed:
			return
		case <-ctx.Done():
			return
		default:
		}
		if n.kind == complete {
			close(r.synced)
			continue
		}
		if n.decode(r.informer); n.obj == nil || n.kind == updated && n.old == nil {
			continue // decode has logged the error
		}
		if h, ok := r.handler.(KnownHandler); ok && !n.visibleSince.IsZero() {
			h.OnKnown(n.old, n.obj, n.visibleSince)
			continue
		}
		switch n.kind {
		case added:
			r.handler.OnAdd(n.obj, n.flag)
		case updated:
			r.handler.OnUpdate(n.old, n.obj)
		case deleted:
			r.handler.OnDelete(n.obj, n.flag)
		}
	}
}

// ring is an unbounded queue with one reader: a ring buffer that doubles when full and halves when
// mostly empty.
type ring[T any] struct {
	filled chan struct{} // receives a value when the queue may have become nonempty

	mu     sync.Mutex
	circle []T
	head   int
	length int
}

const minRing = 16

func newRing[T any]() *ring[T] { return &ring[T]{filled: make(chan struct{}, 1)} }

func (r *ring[T]) push(v T) {
	r.mu.Lock()
	if r.length == len(r.circle) {
		r.resize(max(minRing, 2*len(r.circle)))
	}
	r.circle[(r.head+r.length)%len(r.circle)] = v
	r.length++
	r.mu.Unlock()
	select {
	case r.filled <- struct{}{}:
	default:
	}
}

func (r *ring[T]) pop() (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none T
	if r.length == 0 {
		return none, false
	}
	v := r.circle[r.head]
	r.circle[r.head] = none // don't keep it alive
	r.head = (r.head + 1) % len(r.circle)
	r.length--
	if len(r.circle) > minRing && r.length < len(r.circle)/4 {
		r.resize(len(r.circle) / 2)
	}
	return v, true
}

func (r *ring[T]) resize(size int) {
	circle := make([]T, size)
	for n := range r.length {
		circle[n] = r.circle[(r.head+n)%len(r.circle)]
	}
	r.circle, r.head = circle, 0
}
