package controller

import (
	"context"
	"sync"
	"time"

	"kelson.dev/operator/reconcile"
)

// begun remembers when the last reconcile of an object began. It is bounded: there are two generations, and the older is dropped when the
// younger is full. A nil *begun remembers nothing.
type begun struct {
	mu         sync.Mutex
	young, old map[reconcile.Request]time.Time
}

// maxBegun is the size of a generation. What a reconcile wrote comes back within milliseconds.
const maxBegun = 1024

type begunKey struct{}

func (b *begun) in(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, b) }

func begunFrom(ctx context.Context) *begun {
	b, _ := ctx.Value(begunKey{}).(*begun)
	return b
}

func (b *begun) note(r reconcile.Request, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.young == nil || len(b.young) >= maxBegun {
		b.old, b.young = b.young, make(map[reconcile.Request]time.Time)
	}
	b.young[r] = at
}

// after says that a reconcile of r is known to have begun after a time.
func (b *begun) after(r reconcile.Request, t time.Time) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.young[r]
	if !ok {
		at, ok = b.old[r]
	}
	return ok && at.After(t)
}
