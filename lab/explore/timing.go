package explore

import (
	"testing/synctest"
	"time"

	"kelson.dev/lab/agent"
)

// timing lets time pass, in the control plane and in the process of the operator: virtual time, or
// real time for a Binary. Only the goroutine of the trial calls its methods. When wait returns, all
// other goroutines of the bubble are blocked, so the trial may read what they have written.
type timing struct {
	setup    *setup
	gate     *gate
	order    *order
	operator *processes
	clock    *agent.Clock // nil unless the operator is a Program
}

// wait waits until everything is blocked. A Binary may do something at any time, so the trial does
// not wait for it, unless it needs a choice.
func (tm *timing) wait() {
	switch {
	case tm.setup.wire == nil:
		synctest.Wait()
		tm.flush()
	case !tm.order.fixed():
		for tm.gate.await(arrivalQuiet) {
		}
	}
}

// flush passes the frames that wait to the process of a Program, and lets it run, until both sides
// are idle at the current time.
func (tm *timing) flush() {
	for p := tm.operator.runningProgram(); p != nil && p.link.Pending(); p = tm.operator.runningProgram() {
		now := time.Now()
		tm.exchange(p, now, now)
		synctest.Wait()
	}
}

// exchange lets the process of a Program run, at least until floor and at most until the time
// until, and then lets the control plane reach the same time. Before the time until, no timer of
// the control plane may fire.
func (tm *timing) exchange(p *process, floor, until time.Time) {
	at, err := p.link.Exchange(floor, until, tm.operator.ownLeases(p))
	if text := p.program.Output(); len(text) > 0 {
		_, _ = p.output.Write(text) // returns no error
	}
	if err == nil {
		time.Sleep(time.Until(at))
		err = p.link.Deliver()
	}
	if err != nil {
		p.endProgram(err)
	}
}

// sleep lets virtual time pass.
func (tm *timing) sleep(d time.Duration) {
	if tm.setup.virtual == nil {
		time.Sleep(d)
		return
	}
	tm.advance(d, false)
}

// await waits until a step arrives, or d has passed.
func (tm *timing) await(d time.Duration) {
	if tm.setup.virtual == nil {
		tm.gate.await(d)
		return
	}
	tm.advance(d, true)
}

// advance lets virtual time pass in the control plane and in the process of a Program: neither
// passes the next event of the other. The process runs until the next timer of the control plane,
// or until it sends a frame, and then the control plane follows. If arrival is true, advance
// returns when a step arrives.
func (tm *timing) advance(d time.Duration, arrival bool) {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		if arrival && tm.gate.hasArrived() {
			return
		}
		now := time.Now()
		if !now.Before(end) {
			return
		}
		until := end
		if next, ok := tm.clock.Next(); ok && next.Before(until) {
			until = next
			if !until.After(now) {
				until = now.Add(1)
			}
		}
		floor := now
		if !arrival {
			floor = until
		}
		if p := tm.operator.runningProgram(); p != nil {
			tm.exchange(p, floor, until)
		} else {
			time.Sleep(until.Sub(now))
		}
	}
}
