package controller

import (
	"log/slog"
	"sync"

	"kelson.dev/operator/internal/boundedmap"
	"kelson.dev/operator/reconcile"
)

// conflicts counts the consecutive conflicts of each object, for a bounded number of objects.
type conflicts struct {
	mu    sync.Mutex
	inRow boundedmap.Map[reconcile.Request, int]
}

const (
	// persistentConflicts is the number of consecutive conflicts that are no longer chance: the
	// cache does not catch up, or two writers overwrite each other. With the default backoff, it is
	// reached after five seconds.
	persistentConflicts = 10
	maxConflicting      = 1024
)

func (c *conflicts) init() {
	c.inRow = boundedmap.New[reconcile.Request, int](maxConflicting, nil)
}

func (c *conflicts) add(req reconcile.Request) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _ := c.inRow.Get(req)
	c.inRow.Set(req, n+1)
	return n + 1
}

func (c *conflicts) end(req reconcile.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, _ := c.inRow.Get(req); n > 0 {
		c.inRow.Set(req, 0)
	}
}

// noteConflict logs a conflict: as a warning for the tenth, twentieth, fortieth consecutive
// conflict and so on.
func (c *Controller) noteConflict(log *slog.Logger, req reconcile.Request, err error) {
	n := c.conflicts.add(req)
	if n < persistentConflicts {
		log.Debug("reconcile hit a conflict; retrying", "err", err)
		return
	}
	c.cfg.Metrics.PersistentConflict()
	if times := n / persistentConflicts; n%persistentConflicts == 0 && times&(times-1) == 0 {
		log.Warn("reconcile keeps hitting conflicts: another writer changes the object all the time, or reads are stale; retrying", "conflicts", n, "err", err)
	}
}
