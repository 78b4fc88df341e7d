package controller

import (
	"context"
	"sync"
	"time"

	"kelson.dev/operator/internal/recent"
	"kelson.dev/operator/reconcile"
)

// begun remembers when the last reconcile of an object began, of the last few objects. A nil *begun remembers nothing.
type begun struct {
	mu   sync.Mutex
	last recent.Map[reconcile.Request, time.Time]
}

// maxBegun is how many objects. What a reconcile wrote comes back within milliseconds.
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
	b.last.Size = maxBegun
	b.last.Set(r, at)
}

// after says that a reconcile of r is known to have begun after a time.
func (b *begun) after(r reconcile.Request, t time.Time) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.last.Get(r)
	return ok && at.After(t)
}
