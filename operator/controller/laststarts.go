package controller

import (
	"context"
	"sync"
	"time"

	"kelson.dev/operator/internal/boundedmap"
	"kelson.dev/operator/reconcile"
)

// lastStarts records when the last reconcile of each object started, for a bounded number of
// objects. A nil *lastStarts records nothing.
type lastStarts struct {
	mu   sync.Mutex
	last boundedmap.Map[reconcile.Request, time.Time]
}

// maxStarts bounds the number of objects. The events of a reconcile's writes arrive within
// milliseconds.
const maxStarts = 1024

type lastStartsKey struct{}

func (b *lastStarts) init() { b.last = boundedmap.New[reconcile.Request, time.Time](maxStarts, nil) }

func (b *lastStarts) newContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, lastStartsKey{}, b)
}

func lastStartsFrom(ctx context.Context) *lastStarts {
	b, _ := ctx.Value(lastStartsKey{}).(*lastStarts)
	return b
}

func (b *lastStarts) set(r reconcile.Request, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last.Set(r, at)
}

// after reports whether a reconcile of r is known to have started after t.
func (b *lastStarts) after(r reconcile.Request, t time.Time) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.last.Get(r)
	return ok && at.After(t)
}
