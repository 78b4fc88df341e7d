package controller

import (
	"context"
	"maps"
	"sync"

	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Gate decides which objects this replica reconciles. Package leader has an implementation.
type Gate interface {
	// Enter reports whether this replica may reconcile an object now. If so, the caller must call
	// leave afterwards; until then, no other replica reconciles the object.
	Enter(req reconcile.Request) (leave func(), ours bool)
	// Gained calls f whenever this replica may have gained objects, until stop is called. f must
	// not block.
	Gained(f func()) (stop func())
}

// parked holds the objects that the gate rejected, with their causes. They are queued again when
// this replica gains objects.
type parked struct {
	mu   sync.Mutex
	keys map[reconcile.Request]trace.Causes
}

func (p *parked) put(req reconcile.Request, causes trace.Causes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[reconcile.Request]trace.Causes{}
	}
	if old, ok := p.keys[req]; ok {
		causes = old.Merge(causes)
	}
	p.keys[req] = causes
}

func (p *parked) drop(req reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, req)
}

// dropAll drops the requests for which match returns true, and returns their number.
func (p *parked) dropAll(match func(reconcile.Request) bool) (dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.keys)
	maps.DeleteFunc(p.keys, func(req reconcile.Request, _ trace.Causes) bool { return match(req) })
	return before - len(p.keys)
}

func (p *parked) takeAll() map[reconcile.Request]trace.Causes {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := p.keys
	p.keys = nil
	return keys
}

// enter asks the gate, and parks requests that it rejects.
func (c *Controller) enter(v visit, req reconcile.Request, causes trace.Causes) (leave func(), ours bool) {
	if c.cfg.Gate == nil {
		return func() {}, true
	}
	if leave, ours = c.cfg.Gate.Enter(req); ours {
		return leave, true
	}
	release, ok := c.lockEngaged(v)
	if !ok {
		return nil, false
	}
	defer release()
	c.queue.Forget(req)
	c.parked.put(req, causes)
	// This replica may have gained the object before it was parked.
	if leave, ours = c.cfg.Gate.Enter(req); ours {
		c.parked.drop(req)
	}
	return leave, ours
}

// openGate reconciles what this replica gains: the parked requests, and all objects of the sources,
// because timers and backoffs of other replicas are lost. end stops it.
func (c *Controller) openGate(ctx context.Context) (end func()) {
	gained := make(chan struct{}, 1)
	stop := c.cfg.Gate.Gained(func() {
		select {
		case gained <- struct{}{}:
		default:
		}
	})
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-gained:
			}
			c.dropping.RLock()
			for req, causes := range c.parked.takeAll() {
				c.queue.Add(req, causes)
			}
			c.dropping.RUnlock()
			for _, m := range c.sources.all() {
				if r, ok := m.source.(interface{ Replay(Queue) error }); ok {
					if err := r.Replay(c.queue); err != nil {
						c.cfg.Log.Error("cannot requeue the objects that this replica gained", "err", err)
					}
				}
			}
		}
	})
	return func() { stop(); cancel(); running.Wait() }
}
