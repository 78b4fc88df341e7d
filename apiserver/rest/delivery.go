package rest

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"kelson.dev/apiserver/store"
)

// deliveries orders the events of writes that clients in other processes sent. The response to a
// write does not wait for watches. Instead, the next write waits until the watches that are not
// behind have the events of earlier writes. A client that sends a write after the response to
// another one therefore finds their events in this order, also in two watches of two resources.
//
// Writes in process neither wait nor are waited for: their clients learn from watches rather than
// from responses.
type deliveries struct {
	mu      sync.Mutex
	pending []effect // one for each resource; events of older revisions were delivered
}

// effect is the newest revision that clients in other processes wrote to a resource.
type effect struct {
	resource string
	revision uint64
}

// isExternal reports whether a client in another process sent the request with this context.
func isExternal(ctx context.Context) bool {
	return ctx.Value(http.LocalAddrContextKey) != nil
}

// add records committed operations. A nil object belongs to an operation that wrote nothing.
func (d *deliveries) add(objs []*store.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, obj := range objs {
		if obj == nil {
			continue
		}
		i := slices.IndexFunc(d.pending, func(e effect) bool { return e.resource == obj.Key.Resource })
		if i < 0 {
			d.pending = append(d.pending, effect{obj.Key.Resource, obj.Revision})
		} else {
			d.pending[i].revision = max(d.pending[i].revision, obj.Revision)
		}
	}
}

// await waits until the watches that are not behind have the events that were recorded before.
func (d *deliveries) await(ctx context.Context, s *store.Store) {
	var few [4]effect
	d.mu.Lock()
	due := append(few[:0], d.pending...)
	d.mu.Unlock()
	if len(due) == 0 {
		return
	}
	for _, e := range due {
		s.AwaitDelivery(ctx, e.resource, e.revision)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = slices.DeleteFunc(d.pending, func(e effect) bool { return slices.Contains(due, e) })
}
