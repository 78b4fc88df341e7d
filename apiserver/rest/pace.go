package rest

import (
	"sync"
	"sync/atomic"
	"time"
)

// crowds count the watches of each resource.
type crowds struct{ sync.Map } // by prefix: *atomic.Int64

func (c *crowds) join(prefix string) *atomic.Int64 {
	n, ok := c.Load(prefix)
	if !ok {
		n, _ = c.LoadOrStore(prefix, &atomic.Int64{})
	}
	count := n.(*atomic.Int64)
	count.Add(1)
	return count
}

const (
	// perWatch is how long a watch waits, for each of those that watch the same, before it sends again: some times what it costs to send
	// once. So events that come in quick succession go to a crowd together, and it is the crowd's size that says how quick that is.
	perWatch = 100 * time.Microsecond
	// leastPace is what is worth a timer: with fewer watches each event is sent at once.
	leastPace = time.Millisecond
	// mostPace bounds what waiting adds to the way of an event.
	mostPace = 10 * time.Millisecond
)

// pace spaces out what one watch sends.
type pace struct {
	crowd *atomic.Int64
	last  time.Time // when it sent
	timer *time.Timer
}

// wait lets the time pass that must lie between two sendings. It is false if done was closed before.
func (p *pace) wait(done <-chan struct{}) bool {
	least := min(perWatch*time.Duration(p.crowd.Load()), mostPace)
	if least < leastPace {
		return true
	}
	rest := least - time.Since(p.last)
	if rest <= 0 {
		return true
	}
	if p.timer == nil {
		p.timer = time.NewTimer(rest)
	} else {
		p.timer.Reset(rest)
	}
	select {
	case <-p.timer.C:
		return true
	case <-done:
		return false
	}
}

// sent notes that the watch has sent something just now.
func (p *pace) sent() { p.last = time.Now() }

func (p *pace) end() {
	p.crowd.Add(-1)
	if p.timer != nil {
		p.timer.Stop()
	}
}
