package agent

import (
	"testing/synctest"
	"time"
)

// Runner lets the process of a link and the control plane of its bubble run in turn: neither passes
// the next event of the other. Its methods must be called by one goroutine of the bubble, and no
// other goroutine may call synctest.Wait.
type Runner struct {
	link  *Link
	clock *Clock
}

// NewRunner returns a Runner. The process has begun when Settle returns for the first time.
func NewRunner(l *Link) (*Runner, error) {
	clock, err := NewClock()
	if err != nil {
		return nil, err
	}
	return &Runner{l, clock}, nil
}

// Stop releases the timer of the Runner.
func (r *Runner) Stop() { r.clock.Stop() }

// Settle waits until the process and the control plane are idle at the current time. An error means
// that the process has ended.
func (r *Runner) Settle() error {
	for {
		synctest.Wait()
		if !r.link.Pending() {
			return nil
		}
		now := time.Now()
		if err := r.exchange(now, now); err != nil {
			return err
		}
	}
}

// Sleep lets time pass on both sides. An error means that the process has ended.
func (r *Runner) Sleep(d time.Duration) error {
	for end := time.Now().Add(d); ; {
		if err := r.Settle(); err != nil {
			return err
		}
		now := time.Now()
		if !now.Before(end) {
			return nil
		}
		until := end
		if next, ok := r.clock.Next(); ok && next.Before(until) {
			until = next
			if !until.After(now) {
				until = now.Add(1)
			}
		}
		if err := r.exchange(now, until); err != nil {
			return err
		}
	}
}

// exchange lets the process run, and then the control plane until the same time.
func (r *Runner) exchange(floor, until time.Time) error {
	at, err := r.link.Exchange(floor, until, true)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(at))
	return r.link.Deliver()
}
