// Package watchdog bounds how long each step of a transfer may take.
//
//	dog := &watchdog.Watchdog{Late: func() { _ = conn.SetWriteDeadline(past) }}
//	defer dog.Stop()
//	…
//	dog.Begin(time.Now().Add(stall))
//	conn.Write(piece)
//	dog.End()
package watchdog

import (
	"sync"
	"time"
)

// Patience is how long a request keeps its seats while its client does not take the next piece of
// the response. See [Watchdog.Slow].
const Patience = 20 * time.Millisecond

// Watchdog calls Late when a step is not over in time, and Slow, which may be nil, when a step has
// taken Patience. Each is called at most once, never after Stop has returned, and must not block.
// Set both before the first step.
//
// One timer serves all steps of a transfer: the first step starts it, and when it fires it checks
// the deadline of the current step.
type Watchdog struct {
	Late, Slow func()

	mu       sync.Mutex
	timer    *time.Timer
	armed    bool      // the timer will fire
	slowAt   time.Time // when Slow is called for the current step
	deadline time.Time // deadline of the current step; zero: there is none
	over     bool      // Late or Stop was called
}

// Begin starts a step that must end before until.
func (d *Watchdog) Begin(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = until
	if d.Slow != nil {
		d.slowAt = time.Now().Add(Patience)
	}
	switch {
	case d.over || d.armed:
	case d.timer == nil:
		d.timer, d.armed = time.AfterFunc(d.left(), d.check), true
	default:
		d.timer.Reset(d.left())
		d.armed = true
	}
}

// left is how long the timer must wait for the current step.
func (d *Watchdog) left() time.Duration {
	if d.Slow != nil && d.slowAt.Before(d.deadline) {
		return time.Until(d.slowAt)
	}
	return time.Until(d.deadline)
}

// End ends a step.
func (d *Watchdog) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = time.Time{}
}

// CallSlow calls Slow now, unless it has been called.
func (d *Watchdog) CallSlow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.callSlow()
}

// callSlow is like CallSlow, but the caller must hold mu.
func (d *Watchdog) callSlow() {
	if slow := d.Slow; slow != nil {
		d.Slow = nil
		slow()
	}
}

// Stop ends the watch. If Late or Slow is running, Stop returns after it.
func (d *Watchdog) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// check runs when the timer fires.
func (d *Watchdog) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = false
	if d.over || d.deadline.IsZero() {
		return
	}
	left := d.left()
	if left <= 0 && d.slowAt.Before(d.deadline) {
		d.callSlow()
		left = d.left()
	}
	if left > 0 {
		d.timer.Reset(left)
		d.armed = true
		return
	}
	d.over = true
	d.Late()
}
