package explore

import (
	"errors"
	"testing/synctest"
	"time"

	"kelson.dev/lab/agent"
)

// timing lets time pass, in the control plane and in the processes of the operator: virtual time,
// or real time for a Binary. Only the goroutine of the trial calls its methods. When wait returns,
// all other goroutines of the bubble are blocked, so the trial may read what they have written.
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

// flush passes the frames that wait to the processes of Programs, and lets them run, until all
// sides are idle at the current time.
func (tm *timing) flush() {
	for {
		pending := false
		for _, p := range tm.operator.runningPrograms() {
			if p.link.Pending() {
				pending = true
				now := time.Now()
				tm.exchange(p, now, now)
				synctest.Wait()
			}
		}
		if !pending {
			return
		}
	}
}

// exchange lets the process of a Program run, at least until floor and at most until the time
// until, and then lets the control plane reach the same time. Before the time until, no timer of
// the control plane may fire.
func (tm *timing) exchange(p *process, floor, until time.Time) {
	at, err := p.link.Exchange(floor, until, p.operator.ownLeases(p))
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

// advance lets virtual time pass in the control plane and in the processes of Programs: none passes
// the next event of another. The process runs until the next timer of the control plane,
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
		switch running := tm.operator.runningPrograms(); len(running) {
		case 0:
			time.Sleep(until.Sub(now))
		case 1:
			tm.exchange(running[0], floor, until)
		default:
			tm.advanceFirst(running, now, until, arrival)
		}
	}
}

// advanceFirst lets that of several processes run which has the earliest timer: until the next
// timer of another process, or until the time until, before which the control plane has no timer.
// Without frames, a process does nothing before its next timer. So the clocks of the others may be
// behind: they follow when they get frames, or when their timers are the earliest.
func (tm *timing) advanceFirst(running []*process, now, until time.Time, arrival bool) {
	var first *process
	var earliest time.Time
	limit := until
	for _, p := range running {
		if p.link.Pending() {
			tm.exchange(p, now, now)
			return
		}
		next, ok := p.link.Next()
		if !ok {
			tm.operator.result.failed = errSeveralClocks
			p.endProgram(nil)
			return
		}
		switch {
		case first == nil:
			first, earliest = p, next
		case next.Before(earliest):
			first, earliest, limit = p, next, earlier(limit, earliest)
		default:
			limit = earlier(limit, next)
		}
	}
	if !earliest.Before(until) {
		time.Sleep(until.Sub(now))
		return
	}
	if !limit.After(now) {
		limit = now.Add(1)
	}
	floor := now
	if !arrival {
		floor = limit
	}
	tm.exchange(first, floor, limit)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// errSeveralClocks means that the processes' next timers are not known.
var errSeveralClocks = errors.New("several processes of an operator can run at the same time only if they are built with Go 1.26")
