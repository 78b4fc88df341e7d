package adapter

import (
	"context"
	"fmt"

	"kelson.dev/operator/adapter/cluster"
)

// handover delays the reconciles of a new leader until its caches have everything that the previous
// leader wrote.
type handover struct {
	cache *cluster.Cache
	// has a value while no reconcile catches up; closed when the caches have caught up
	turn chan struct{}
}

func newHandover(c *cluster.Cache) *handover {
	h := &handover{cache: c, turn: make(chan struct{}, 1)}
	h.turn <- struct{}{}
	return h
}

// wait returns nil if the caches have caught up. An error is retried by the controller's queue.
func (h *handover) wait(ctx context.Context) error {
	if h == nil {
		return nil
	}
	select {
	case _, mine := <-h.turn:
		if !mine {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := h.cache.CatchUp(ctx); err != nil {
		h.turn <- struct{}{}
		return fmt.Errorf("catch up with the writes of the previous leader: %w", err)
	}
	close(h.turn)
	return nil
}
