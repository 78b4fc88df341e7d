package controller

import (
	"context"
	"maps"
	"sync"

	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Gate lets objects through to the reconciler that are this replica's business. See package leader for one.
type Gate interface {
	// Enter says whether an object may be reconciled now. If so, leave is to be called after that; until then the object is with
	// nobody else.
	Enter(req reconcile.Request) (leave func(), ours bool)
	// Gained has f called whenever objects may have come to this replica, until stop is called. f must not block.
	Gained(f func()) (stop func())
}

// parked are the objects that the gate did not let through, and why they were there. They are queued again when objects come to this
// replica.
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

// dropAll drops those of them that are meant, and says how many these are.
func (p *parked) dropAll(which func(reconcile.Request) bool) (dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.keys)
	maps.DeleteFunc(p.keys, func(req reconcile.Request, _ trace.Causes) bool { return which(req) })
	return before - len(p.keys)
}

func (p *parked) takeAll() map[reconcile.Request]trace.Causes {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := p.keys
	p.keys = nil
	return keys
}

// enter asks the gate, and parks what is not let through.
func (c *Controller) enter(v visit, req reconcile.Request, causes trace.Causes) (leave func(), ours bool) {
	if c.cfg.Gate == nil {
		return func() {}, true
	}
	if leave, ours = c.cfg.Gate.Enter(req); ours {
		return leave, true
	}
	release, ok := c.keep(v)
	if !ok {
		return nil, false
	}
	defer release()
	c.queue.Forget(req)
	c.parked.put(req, causes)
	// It may have come to this replica before it was parked.
	if leave, ours = c.cfg.Gate.Enter(req); ours {
		c.parked.drop(req)
	}
	return leave, ours
}

// openGate has what comes to this replica reconciled: what was parked, and every object of the sources, since timers and backoffs of
// another replica's are lost. The result ends it.
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
				if r, ok := m.source.(interface{ Replay(*Queue) error }); ok {
					if err := r.Replay(c.queue); err != nil {
						c.cfg.Log.Error("objects that came to this replica are not seen", "err", err)
					}
				}
			}
		}
	})
	return func() { stop(); cancel(); running.Wait() }
}
