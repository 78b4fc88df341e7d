package rest

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// effects are the writes of one request, which its response reports to the client. The response
// waits until the watches that are not behind have these events. A client with several watches then
// gets them before the events of the writer's next write.
//
// Requests in process have no effects. Their clients receive writes through watches rather than
// responses, and need not wait.
type effects struct {
	mu     sync.Mutex
	newest effect
	others []effect // writes to other resources; rare
}

// effect is the newest revision that a request wrote to a resource.
type effect struct {
	resource string
	revision uint64
}

type effectsKey struct{}

// withEffects returns the context for the writes of a request. It records them if a client in
// another process sent the request.
func (s *scope) withEffects(ctx context.Context) context.Context {
	if s.req.Method == http.MethodGet || ctx.Value(http.LocalAddrContextKey) == nil {
		return ctx
	}
	return context.WithValue(ctx, effectsKey{}, &s.effects)
}

// affected records the committed operations of a request.
func affected(ctx context.Context, objs []*store.Object) {
	e, ok := ctx.Value(effectsKey{}).(*effects)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, obj := range objs {
		if obj != nil { // nil: the operation only checked an object
			e.add(effect{obj.Key.Resource, obj.Revision})
		}
	}
}

func (e *effects) add(now effect) {
	if e.newest.resource == "" || e.newest.resource == now.resource {
		e.newest = now
		return
	}
	for i := range e.others {
		if e.others[i].resource == now.resource {
			e.others[i] = now
			return
		}
	}
	e.others = append(e.others, now)
}

// awaitDelivery waits until the watches that are not behind have the events of the request's writes
// so far.
func (h *Handler) awaitDelivery(ctx context.Context) {
	e, ok := ctx.Value(effectsKey{}).(*effects)
	if !ok {
		return
	}
	e.mu.Lock()
	newest, others := e.newest, e.others
	e.newest, e.others = effect{}, nil
	e.mu.Unlock()
	if newest.resource == "" {
		return
	}
	h.store.AwaitDelivery(ctx, newest.resource, newest.revision)
	for _, other := range others {
		h.store.AwaitDelivery(ctx, other.resource, other.revision)
	}
}

// send responds with one object after watches have delivered the writes of the request.
func (s *scope) send(code int, f wire.Format, gvk schema.GroupVersionKind, bare []byte) {
	s.awaitDelivery(s.ctx)
	wire.Object(s.w, s.req, code, f, gvk, bare)
}
