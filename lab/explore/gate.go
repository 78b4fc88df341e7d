package explore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// phase is the stage of processing at which a step waits.
type phase int

const (
	// committing is a write of any client or controller, between its check and the log. These steps
	// come first, so that the server is idle when another step is chosen. Those of ordering come
	// next, so that the operator sees what Kubernetes' controllers have done. They are the writes
	// of these controllers and of users, before the server has them, and their responses.
	committing phase = iota
	ordering
	sending    // a request of the operator before the server has it
	responding // a request that the server has executed
	delivering // an event of a watch
)

// step is a write, a request or an event that waits until the explorer lets it pass. The explorer
// lets one step pass at a time, when everything else is blocked; so a run is a sequence of choices.
type step struct {
	phase   phase
	call    call
	label   string
	process *process // nil for writes of the control plane's own controllers and of users
	point   Point    // zero if no fault can happen here
	body    []byte   // of a patch
	late    bool     // the write of an Event, which comes after all other steps
	node    string   // the Node whose agent sends this write; "" once the server has it
	initial bool     // the event is part of a list

	revision uint64 // of an event
	view     *view  // the older state that answers the read; nil for the newest

	round   int // round in which the step arrived
	order   int // index among the steps of its label and round
	verdict chan verdict
	held    bool // until unhold
	until   int  // the step stays held until this number of inputs was made
}

// suspended reports whether the step's process is suspended. It returns false for the one request
// that the server still executes, and for its response.
func (s *step) suspended() bool {
	if s.process == nil {
		return false
	}
	only := s.process.only
	return only != nil && s != only && (s.phase != responding || s.call != only.call)
}

// verdict is the fate that the explorer chooses for a step.
type verdict int

const (
	pass   verdict = iota
	killed         // the process is dead
	lost           // the response does not arrive
	conflict
	tooMany
	internal
	denied
	cut         // the watch ends
	unreachable // the server does not listen
	forbidden   // by RBAC
	exceeded    // a quota is exceeded
	unavailable // a service answers 503
)

// gate holds the steps that wait.
type gate struct {
	mu      sync.Mutex
	waiting []*step
	round   int
	open    bool          // steps no longer wait
	arrived chan struct{} // has an element after a step has arrived, or after wake
}

func newGate() *gate { return &gate{arrived: make(chan struct{}, 1)} }

// wait blocks until the explorer lets the step pass, or ctx ends.
func (g *gate) wait(ctx context.Context, s *step) (verdict, error) {
	s.verdict = make(chan verdict, 1)
	g.mu.Lock()
	switch {
	case g.open:
		g.mu.Unlock()
		return pass, nil
	case s.phase > ordering && s.process.dead:
		g.mu.Unlock()
		return killed, nil
	}
	s.round = g.round
	for _, other := range g.waiting {
		if other.round == s.round && other.label == s.label {
			s.order++
		}
	}
	g.waiting = append(g.waiting, s)
	g.mu.Unlock()
	g.wake()
	select {
	case v := <-s.verdict:
		return v, nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.remove(s)
		return 0, ctx.Err()
	}
}

// remove removes a step. The caller holds the lock.
func (g *gate) remove(s *step) {
	g.waiting = slices.DeleteFunc(g.waiting, func(o *step) bool { return o == s })
}

// choices returns the steps that may come next, in their default order: oldest first, then by
// label. While writes of the server or of clients other than the operator wait, it returns only
// these. Their Events come last, because controllers write them from separate goroutines. All
// goroutines must be blocked.
func (g *gate) choices(enabled func(*step) bool) []*step {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.round++
	var all []*step
	for _, first := range []phase{committing, ordering} {
		for _, s := range g.waiting {
			if s.phase == first && !s.held && !s.late && enabled(s) {
				all = append(all, s)
			}
		}
		if len(all) > 0 {
			break
		}
	}
	for _, late := range []bool{false, true} {
		if len(all) > 0 {
			break
		}
		for _, s := range g.waiting {
			if s.late == late && !s.held && !s.suspended() && enabled(s) {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.label, b.label), cmp.Compare(a.phase, b.phase),
			cmp.Compare(a.order, b.order))
	})
	return all
}

// release lets a step continue.
func (g *gate) release(s *step, v verdict) {
	g.mu.Lock()
	g.remove(s)
	g.mu.Unlock()
	s.verdict <- v
}

// end lets all steps pass, now and later.
func (g *gate) end() {
	g.mu.Lock()
	g.open = true
	waiting := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	for _, s := range waiting {
		s.verdict <- pass
	}
}

// kill makes all steps of a process fail, now and later. The server still commits writes that it
// has already checked.
func (g *gate) kill(p *process) {
	g.mu.Lock()
	p.dead = true
	var steps []*step
	for _, s := range g.waiting {
		if s.process == p && s.phase > ordering {
			steps = append(steps, s)
		}
	}
	for _, s := range steps {
		g.remove(s)
	}
	g.mu.Unlock()
	for _, s := range steps {
		s.verdict <- killed
	}
}

// suspend holds all steps of a process, now and later, except for one request and its response.
func (g *gate) suspend(p *process, only *step) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.only = only
}

// unhold releases the held steps that may continue after the given number of inputs, or all held
// steps if last is true. It reports whether it has released any.
func (g *gate) unhold(inputs int, last bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	any := false
	for _, s := range g.waiting {
		if s.held && (last || s.until <= inputs) {
			s.held, any = false, true
		}
	}
	return any
}

// holds reports whether a step is held.
func (g *gate) holds() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.waiting, func(s *step) bool { return s.held })
}

// wake ends the current or the next await.
func (g *gate) wake() {
	select {
	case g.arrived <- struct{}{}:
	default:
	}
}

// await waits until a step arrives, or d has passed. It reports whether one has arrived.
func (g *gate) await(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.arrived:
		return true
	case <-timer.C:
		return false
	}
}
