package rest

import (
	"sync"
	"sync/atomic"
	"time"
)

// crowds counts the watches of each resource.
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
	// A watch waits for perWatch, times the number of watches of its resource, before it sends
	// again. It is a few times the cost of one send, so that many watches combine events that
	// follow each other quickly.
	perWatch = 100 * time.Microsecond
	// minPace is the shortest wait that justifies a timer. With fewer watches, each event is sent
	// immediately.
	minPace = time.Millisecond
	// maxPace bounds how long waiting delays an event.
	maxPace = 10 * time.Millisecond
)

// pace delays the sends of one watch.
type pace struct {
	crowd *atomic.Int64
	last  time.Time // the time of the last send
	timer *time.Timer
}

// remaining returns how long the watch must wait before it sends again.
func (p *pace) remaining() time.Duration {
	least := min(perWatch*time.Duration(p.crowd.Load()), maxPace)
	if least < minPace {
		return 0
	}
	return max(least-time.Since(p.last), 0)
}

// wait waits for the remaining time. It returns false if done is closed first.
func (p *pace) wait(done <-chan struct{}) bool {
	rest := p.remaining()
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

// sent records that the watch has just sent something.
func (p *pace) sent() { p.last = time.Now() }

func (p *pace) end() {
	p.crowd.Add(-1)
	if p.timer != nil {
		p.timer.Stop()
	}
}
