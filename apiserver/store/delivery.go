package store

import (
	"context"
	"sync"
	"time"
)

// deliveryTick is half of AwaitDelivery's maximum wait. The usual wait is about 50 µs. The limit is
// much higher, so that readers meet it on a machine whose processors are busy. If the whole process
// was not scheduled for a while, the first timer fires late, but the readers then run before the
// second one.
const deliveryTick = 20 * time.Millisecond

// maxAbsence limits how often a reader must be at the head of the log before writers wait for it
// again.
const maxAbsence = 1 << 10

// audience holds the readers of one log that writers wait for: those that were at the head of the
// log and deliver later events. If a writer's wait for a reader times out, the reader leaves the
// audience until it is at the head again, so that it delays only one writer. After each further
// timeout it stays outside twice as long.
type audience struct {
	mu      sync.Mutex
	members []*Cursor
	waits   []*delivery
}

// delivery is one call of AwaitDelivery.
type delivery struct {
	revision uint64
	left     int           // number of members with delivered < revision
	done     chan struct{} // closed when left is 0
}

// Delivered records that the reader has passed on the events that Next has returned so far. A
// reader that calls it after each Next takes part in [Store.AwaitDelivery] from the first time that
// it is at the head of the log. It must call Leave when it ends.
func (c *Cursor) Delivered() {
	a := &c.log.audience
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case c.member > 0:
		a.release(c.delivered, c.after)
		c.delivered = c.after
	case c.head && c.absence > 0:
		c.absence--
	case c.head:
		c.delivered = c.after
		a.join(c)
	}
}

// Leave ends the reader's part in [Store.AwaitDelivery] until Delivered is called at the head of
// the log.
func (c *Cursor) Leave() {
	a := &c.log.audience
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.member > 0 {
		a.leave(c)
	}
}

// AwaitDelivery waits for the readers that were at the head of a resource's log before a revision,
// until they have delivered the events up to it. It returns earlier if ctx ends or after some
// milliseconds. Without such readers, it returns immediately and allocates nothing. See
// [Cursor.Delivered].
func (s *Store) AwaitDelivery(ctx context.Context, resource string, revision uint64) {
	s.mu.RLock()
	l := s.logs[resource]
	s.mu.RUnlock()
	if l == nil {
		return
	}
	a := &l.audience
	d := a.await(revision)
	if d == nil {
		return
	}
	timer := time.NewTimer(deliveryTick)
	defer timer.Stop()
	for range 2 {
		select {
		case <-d.done:
			return
		case <-ctx.Done():
			a.forget(d, false)
			return
		case <-timer.C:
			timer.Reset(deliveryTick)
		}
	}
	a.forget(d, true)
}

// await returns a delivery to wait for, or nil if all members have delivered a revision.
func (a *audience) await(revision uint64) *delivery {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := 0
	for _, c := range a.members {
		if c.delivered < revision {
			left++
		}
	}
	if left == 0 {
		return nil
	}
	d := &delivery{revision: revision, left: left, done: make(chan struct{})}
	a.waits = append(a.waits, d)
	return d
}

// forget ends a wait. If the wait timed out, the members that it waited for leave.
func (a *audience) forget(d *delivery, timedOut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.members) - 1; timedOut && i >= 0; i-- {
		if c := a.members[i]; c.delivered < d.revision {
			a.leave(c)
			c.absence = c.nextAbsence
			c.nextAbsence = min(2*c.nextAbsence+1, maxAbsence)
		}
	}
	for i, other := range a.waits {
		if other == d {
			a.drop(i)
			return
		}
	}
}

// join adds a cursor. Waits that began since it was at the head wait for it, too.
func (a *audience) join(c *Cursor) {
	a.members = append(a.members, c)
	c.member = len(a.members)
	for _, d := range a.waits {
		if d.revision > c.delivered {
			d.left++
		}
	}
}

// leave removes a member.
func (a *audience) leave(c *Cursor) {
	last := a.members[len(a.members)-1]
	a.members[c.member-1], last.member = last, c.member
	a.members[len(a.members)-1] = nil
	a.members = a.members[:len(a.members)-1]
	c.member = 0
	a.release(c.delivered, ^uint64(0))
}

// release decrements the number of members to wait for in the waits for revisions in (after, upTo].
func (a *audience) release(after, upTo uint64) {
	for i := len(a.waits) - 1; i >= 0; i-- {
		d := a.waits[i]
		if d.revision <= after || d.revision > upTo {
			continue
		}
		if d.left--; d.left == 0 {
			close(d.done)
			a.drop(i)
		}
	}
}

// drop removes a wait.
func (a *audience) drop(i int) {
	last := len(a.waits) - 1
	a.waits[i] = a.waits[last]
	a.waits[last] = nil
	a.waits = a.waits[:last]
}
