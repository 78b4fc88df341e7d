package explore

import (
	"fmt"
	"slices"
	"strings"
)

// injector carries out the faults of a plan: at the steps of the operator, which it lets pass, and
// as long as they last. Only the goroutine of the trial calls it, between steps: all goroutines of
// the operator and of the control plane are blocked.
//
// Each fault of the plan happens at most once. A fault that needs the write of another client is
// prepared here (occupied, mutating, foreign), and made by actions before the operator's step
// continues.
type injector struct {
	setup    *setup
	result   *result
	gate     *gate
	order    *order
	history  *history
	progress *progress
	delays   *delays
	observed *observed
	operator *processes
	outside  *outside

	occupied *occupation // of the plan; nil before it happens
	mutating *step       // the creation before which Mutate happens; nil for none
	foreign  *foreign    // the plan's write of another client; nil for none
	silent   string      // the Node whose agent is cut off; "" for none
	branch   *branch     // where the run leaves the plan; may be nil
}

func (in *injector) logStep(s *step, v verdict) {
	what := "request: "
	switch s.phase {
	case committing:
		what = "server: "
	case responding:
		what = "response: "
	case delivering:
		what = "event: "
	}
	if s.process != nil {
		what += s.process.operator.prefix()
	}
	in.result.log(what + in.history.names.text(s.label) + verdictNames[v])
}

// enabled reports whether the plan's faults allow a step to pass now.
func (in *injector) enabled(s *step) bool {
	switch {
	case s.phase <= ordering:
		return s.node == "" || s.node != in.silent
	case s.process.operator.paused:
		return false
	}
	return in.delays.allow(s)
}

// execute lets a step pass, or applies the fault that the plan has for it.
func (in *injector) execute(s *step) {
	v := pass
	switch s.phase {
	case committing:
		if s.point != (Point{}) {
			in.visit(&s.point)
			// An attempt to create the volume ends after a minute; later ones wait, too.
			if in.find(s.point, PendingClaim).Kind != "" {
				in.delays.unbound[s.point.Object] = true
			}
			s.held = in.delays.unbound[s.point.Object]
		}
	case sending:
		s.view = in.viewFor(s.process, s.call)
		if s.point.isCall() {
			in.visit(&s.point)
			v = in.callBefore(s)
		} else if s.point != (Point{}) {
			generated := strings.HasSuffix(s.point.Object, "*") // and not masked by visit
			if in.visit(&s.point) {
				v := &in.result.points[len(in.result.points)-1]
				v.creates, v.generated = in.setup.creates(s.call), generated
				v.first = v.creates && !in.progress.created[s.call.resource]
				in.progress.created[s.call.resource] = in.progress.created[s.call.resource] || v.creates
				if in.setup.keepAll {
					v.foreign = in.foreignWrites(s)
				}
			}
			v = in.faultBefore(s)
		} else {
			v = in.verdictOf(s.call)
		}
		if s.call.watch && in.delays.cut[s.call.resource] {
			in.delays.refused[s.call.resource], v = true, cut
		}
	case responding:
		if s.process.only != nil {
			s.process.kill() // the process notices that it has lost its lease
			return
		}
		if s.point != (Point{}) {
			if s.point.isCall() {
				in.noteCall(s)
			}
			in.visited(s.point)
			v = in.faultAfter(s)
		}
	case delivering:
		if s.point != (Point{}) {
			in.visit(&s.point)
			v = in.faultAtEvent(s)
		}
	}
	if o := in.occupied; o != nil && s.phase == sending && s.call.verb == "delete" && s.label == "delete "+o.id {
		o.deleted = true
	}
	if s.held || in.result.pruned || s.phase > ordering && s.process.dead {
		return
	}
	if s.phase == delivering && v == pass && !in.enabled(s) {
		return // frozen at this event: it stays
	}
	if s.phase != ordering && (s.phase != committing || s.process == nil) {
		in.logStep(s, v)
	}
	in.gate.release(s, v)
}

// visit numbers a point that is reached for the first time, and records the state before it. It
// returns false for a point that a fault has delayed.
func (in *injector) visit(p *Point) bool {
	if p.N > 0 {
		return false
	}
	p.Object = in.history.names.masked(p.Object)
	in.progress.counts[*p]++
	p.N = in.progress.counts[*p]
	in.result.points = append(in.result.points, visit{Point: *p, before: in.history.sum, after: in.history.sum,
		inputs: in.progress.inputs, removed: in.history.removal > 0})
	in.progress.revisions[*p] = in.setup.env.Plane().Store().Snapshot().Revision()
	return true
}

// visited records the state after a write.
func (in *injector) visited(p Point) {
	for i := range slices.Backward(in.result.points) {
		if in.result.points[i].Point == p {
			in.result.points[i].after = in.history.sum
			return
		}
	}
}

// find returns the plan's fault at a point, if its kind is one of kinds; otherwise its kind is
// empty.
func (in *injector) find(p Point, kinds ...Kind) Fault {
	for i, f := range in.setup.plan {
		if f.At == p && !in.progress.done[i] && slices.Contains(kinds, f.Kind) {
			in.progress.done[i] = true
			in.progress.fired++
			in.result.log(fmt.Sprintf("FAULT %s", f))
			return f
		}
	}
	return Fault{}
}

func (in *injector) faultBefore(s *step) verdict {
	if in.delays.denied[s.call.verb+" "+s.call.resource] {
		return denied
	}
	if v := in.verdictOf(s.call); v != pass {
		return v
	}
	f := in.find(s.point, KillBefore, Conflict, TooMany, Internal, Hold, HoldInput, TwoLeaders, Deny, ForeignWrite,
		foreignFirst, foreignLast,
		Revoke, Quota, ServerRestart, Occupied, Mutate)
	switch f.Kind {
	case KillBefore:
		in.crash(s.process.operator)
	case Conflict:
		in.delays.denials = in.delays.denials || s.point.N > manyAttempts
		return conflict
	case TooMany:
		in.delays.denials = in.delays.denials || in.setup.wire != nil || s.point.N > manyAttempts
		return tooMany
	case Internal:
		in.delays.denials = in.delays.denials || s.point.N > manyAttempts
		return internal
	case Hold:
		s.held = true
	case HoldInput:
		s.held, s.until = true, in.progress.inputs+1
	case ForeignWrite, foreignFirst, foreignLast:
		in.foreign = &foreign{fault: f, object: in.setup.stored(s.call)}
		if f.Kind != foreignLast && in.foreign.object != nil {
			in.foreign.step, s.held = s, true
		}
	case TwoLeaders:
		s.held = true
		in.gate.suspend(s.process.operator.process, s)
		s.process.operator.startNext()
	case Revoke:
		in.delays.outage.revoked[s.call.base()], in.delays.denials = true, true
		return forbidden
	case Quota:
		in.delays.outage.exceeded[s.call.resource], in.delays.denials = true, true
		return exceeded
	case ServerRestart:
		in.restartServer()
		return unreachable
	case Occupied:
		in.occupy(s)
	case Mutate:
		in.mutating, s.held = s, true
	case Deny:
		in.delays.denied[s.call.verb+" "+s.call.resource], in.delays.denials = true, true
		return denied
	}
	return pass
}

func (in *injector) faultAfter(s *step) verdict {
	switch in.find(s.point, KillAfter, KillStale, KillOld, Lose, SlowResponse).Kind {
	case SlowResponse:
		s.held = true
	case KillAfter:
		in.crash(s.process.operator)
	case KillStale:
		in.crashTo(s.process.operator, in.progress.revisions[s.point])
	case KillOld:
		if in.history.removal == 0 {
			break // nothing was removed before; only a hand-written plan asks for this
		}
		in.crashTo(s.process.operator, in.history.removal-1)
	case Lose:
		return lost
	}
	return pass
}

func (in *injector) faultAtEvent(s *step) verdict {
	switch in.find(s.point, Freeze, FreezeAll, Cut, ServerRestart).Kind {
	case Freeze:
		in.delays.freeze(s.call.resource, s.revision)
	case FreezeAll:
		in.delays.freeze(everything, s.revision)
	case Cut:
		in.delays.cutOff(s.call.resource)
		return cut
	case ServerRestart:
		in.restartServer()
		return cut
	}
	return pass
}

// crashTo kills the process. The cached reads of the next one show the state at a revision.
func (in *injector) crashTo(op *processes, revision uint64) {
	in.delays.freezeTo(&view{revision: revision, stale: true})
	in.result.log(fmt.Sprintf("the next process is connected to a server whose cache has revision %d", revision))
	in.crash(op)
}

// crash kills the process of an operator and starts the next one.
func (in *injector) crash(op *processes) {
	if op.other != nil {
		in.result.log("the process of the operator " + op.other.Name + " is killed")
	}
	op.process.kill()
	in.observed.forgetErrors()
	if in.seenBefore() {
		in.result.pruned = true
		return
	}
	op.startNext()
}

// release ends the delays of faults, one kind after the other, and reports whether it has ended
// any.
func (in *injector) release() bool {
	what := in.delays.end()
	switch {
	case what == volumesCreated:
		in.gate.unhold(in.progress.inputs, in.progress.last)
	case what == "" && in.gate.unhold(in.progress.inputs, in.progress.last):
		what = "the held requests continue"
	case what == "":
		return false
	}
	in.result.log(what)
	return true
}
