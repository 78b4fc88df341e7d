package filters

import (
	"sync"
	"time"
)

// watchdog calls bark when a step of a transfer is not over in time, and growl, which may be nil, when a step has taken longer than patience.
// One timer serves all steps of a request: it is started by the first one, and looks at the time of the present one when it fires.
//
// bark and growl run at most once each, never after stop has returned, and must not block.
type watchdog struct {
	bark, growl func()

	mu    sync.Mutex
	timer *time.Timer
	armed bool      // the timer will fire
	soon  time.Time // when growl is called for the present step
	until time.Time // when the present step must be over; zero: there is none
	over  bool      // bark was called, or stop
}

// begin starts a step that must end before until.
func (d *watchdog) begin(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = until
	if d.growl != nil {
		d.soon = time.Now().Add(patience)
	}
	switch {
	case d.over || d.armed:
	case d.timer == nil:
		d.timer, d.armed = time.AfterFunc(d.left(), d.look), true
	default:
		d.timer.Reset(d.left())
		d.armed = true
	}
}

// left is how long the timer must wait for the present step.
func (d *watchdog) left() time.Duration {
	if d.growl != nil && d.soon.Before(d.until) {
		return time.Until(d.soon)
	}
	return time.Until(d.until)
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
	left := d.left()
	if left <= 0 && d.growl != nil && d.soon.Before(d.until) {
		growl := d.growl
		d.growl = nil
		growl()
		left = d.left()
	}
	if left > 0 {
		d.timer.Reset(left)
		d.armed = true
		return
	}
	d.over = true
	d.bark()
}
