package filters

import (
	"sync"
	"time"
)

// watchdog calls bark when a step of a transfer exceeds its time. One timer serves all steps of a request: the first step
// starts it, and when it fires it checks the deadline of the current step.
//
// bark runs at most once, never after stop has returned, and must not block.
type watchdog struct {
	bark func()

	mu    sync.Mutex
	timer *time.Timer
	armed bool      // the timer will fire
	until time.Time // deadline of the current step; zero: no step
	over  bool      // bark or stop was called
}

// begin starts a step that must end before until.
func (d *watchdog) begin(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = until
	switch {
	case d.over || d.armed:
	case d.timer == nil:
		d.timer, d.armed = time.AfterFunc(time.Until(until), d.look), true
	default:
		d.timer.Reset(time.Until(until))
		d.armed = true
	}
}

// end ends a step.
func (d *watchdog) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = time.Time{}
}

// stop ends the watch. If bark is running, stop returns after it.
func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// look runs when the timer fires.
func (d *watchdog) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = false
	if d.over || d.until.IsZero() {
		return
	}
	if left := time.Until(d.until); left > 0 {
		d.timer.Reset(left)
		d.armed = true
		return
	}
	d.over = true
	d.bark()
}
