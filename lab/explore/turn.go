package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"kelson.dev/operator/reconcile"
)

// settle lets the operator and the control plane work until nothing has changed for the quiet
// period, and everything that faults delay has happened. It reports whether the trial can continue.
func (t *trial) settle() bool {
	if t.wire != nil {
		return t.settleWire()
	}
	begin, last, steps, confirm := time.Now(), time.Now(), 0, time.Time{}
	var pauses pauses
	fired := t.progress.fired
	quiet, horizon := orDefault(t.scenario.Quiet, defaultQuiet), orDefault(t.scenario.Horizon, defaultHorizon)
	for {
		changed, step, ok := t.turn()
		if !ok {
			return false
		}
		if changed || t.progress.fired > fired {
			// After a fault, the operator retries, perhaps after a long backoff.
			pauses.add(time.Since(last))
			last, fired = time.Now(), t.progress.fired
		}
		switch {
		case step:
			if steps++; steps%maxDelay == 0 && t.release() {
				last = time.Now()
			}
			if steps%stepsPerSecond == 0 {
				t.sleep(time.Second) // the clock must advance during a hot loop, too
			}
			if steps > maxSteps {
				t.alarm("O4", "hot loop", t.loop(steps, time.Since(begin)))
				return false
			}
		case time.Since(last) >= quiet:
			if t.delays.denials && !t.delays.refusing() {
				quiet, t.delays.denials = max(quiet, maxBackoff), false
				continue
			}
			if t.release() {
				last = time.Now()
				t.forgetErrors()
				continue
			}
			if confirm.IsZero() && t.fails(last.Add(quiet/2)) {
				// The operator's next attempt may come after a long backoff.
				confirm, quiet = time.Now(), quiet+maxBackoff
				continue
			}
			t.noteErrors(confirm)
			return true
		case time.Since(begin) > horizon:
			t.alarm("O4", "never quiet", fmt.Sprintf("after %v objects still change: %s%s", horizon,
				strings.Join(slices.Compact(t.history.recent), ", "), pauses.advice()))
			return false
		default:
			t.await(quiet - time.Since(last))
		}
	}
}

// pass lets time pass.
func (t *trial) pass(d time.Duration) bool {
	for end := time.Now().Add(d); ; {
		_, step, ok := t.turn()
		if !ok {
			return false
		}
		if left := time.Until(end); !step && left <= 0 {
			return true
		} else if !step {
			t.await(left)
		}
	}
}

func orDefault(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// turn waits until everything is blocked, reads the new versions, and lets one step pass.
func (t *trial) turn() (changed, step, ok bool) {
	if t.wire == nil && t.latest != nil && t.latest.phase > ordering {
		t.latest = nil
		synctest.Wait()
		t.sleep(messageTime)
	}
	t.wait()
	if t.wire != nil && t.t.Context().Err() != nil {
		t.result.failed = t.t.Context().Err()
		return false, false, false
	}
	before := t.history.changes
	if err := t.history.read(); err != nil {
		t.result.failed = err
		return false, false, false
	}
	if changed = t.history.changes > before; changed {
		t.forgetErrors()
	}
	if t.result.pruned || !t.running() || len(t.result.alarms) > 0 && t.result.alarms[0].fatal {
		return changed, false, false
	}
	if t.stopped && !t.restartAt.IsZero() && !time.Now().Before(t.restartAt) {
		t.restartAt = time.Time{}
		t.progress.fired++ // the next process must become quiet
		t.resume()
	}
	t.leavePlan()
	if t.wire == nil {
		// Generated names must not depend on other uses of random values.
		utilrand.Seed(int64(len(t.result.steps)))
	}
	if steps := t.gate.choices(t.enabled); len(steps) > 0 {
		t.latest = t.beforeResponse(choose(steps, t.random, t.order), steps)
		t.execute(t.latest)
		return changed, true, t.interrupt() && t.createFirst() && t.installFirst()
	}
	acted, ok := t.simulate()
	return changed, acted, ok
}

// wait waits until everything is blocked. A Binary may do something at any time, so the trial does
// not wait for it, unless it needs a choice.
func (t *trial) wait() {
	switch {
	case t.wire == nil:
		synctest.Wait()
		t.flush()
	case t.random != nil || t.order != nil:
		for t.gate.await(arrivalQuiet) {
		}
	}
}

// running reports whether the operator runs, and raises an alarm if it has ended by itself.
func (t *trial) running() bool {
	select {
	case <-t.process.ended:
		if t.stopped {
			break
		}
		if t.result.failed != nil {
			return false
		}
		if t.endedInOutage() {
			t.log("the operator ended, because the server did not respond")
			t.stopped, t.restartAt = true, t.delays.outage.up
			return true
		}
		if t.process.err == nil {
			t.process.err = errors.New("it returned without an error")
		}
		if p := (*reconcile.PanicError)(nil); errors.As(t.process.err, &p) {
			t.alarm("O3", operatorPanics, panicDetail(p))
		} else if p := (*programPanic)(nil); errors.As(t.process.err, &p) {
			t.alarm("O3", operatorPanics, p.detail)
		} else {
			t.alarm("O3", operatorEnded, t.process.err.Error())
		}
		return false
	default:
	}
	t.observed.mu.Lock()
	defer t.observed.mu.Unlock()
	if len(t.observed.panics) > 0 {
		t.alarm("O3", "a reconciler panics", t.observed.panics[0])
		return false
	}
	return true
}

// enabled reports whether the plan's faults allow a step to pass now.
func (t *trial) enabled(s *step) bool {
	switch {
	case s.phase <= ordering:
		return s.node == "" || s.node != t.silent
	case t.paused:
		return false
	}
	return t.delays.allow(s)
}

// execute lets a step pass, or applies the fault that the plan has for it.
func (t *trial) execute(s *step) {
	v := pass
	switch s.phase {
	case committing:
		if s.point != (Point{}) {
			t.visit(&s.point)
			// An attempt to create the volume ends after a minute; later ones wait, too.
			if t.find(s.point, PendingClaim).Kind != "" {
				t.delays.unbound[s.point.Object] = true
			}
			s.held = t.delays.unbound[s.point.Object]
		}
	case sending:
		s.view = t.viewFor(s.process, s.call)
		if s.point != (Point{}) {
			generated := strings.HasSuffix(s.point.Object, "*") // and not masked by visit
			if t.visit(&s.point) {
				v := &t.result.points[len(t.result.points)-1]
				v.creates, v.generated = t.creates(s.call), generated
				v.first = v.creates && !t.progress.created[s.call.resource]
				t.progress.created[s.call.resource] = t.progress.created[s.call.resource] || v.creates
				if t.keepAll {
					v.foreign = t.foreignWrites(s)
				}
			}
			v = t.faultBefore(s)
		} else {
			v = t.verdictOf(s.call)
		}
		if s.call.watch && t.delays.cut[s.call.resource] {
			t.delays.refused[s.call.resource], v = true, cut
		}
	case responding:
		if s.process.only != nil {
			s.process.kill() // the process notices that it has lost its lease
			return
		}
		if s.point != (Point{}) {
			t.visited(s.point)
			v = t.faultAfter(s)
		}
	case delivering:
		if s.point != (Point{}) {
			t.visit(&s.point)
			v = t.faultAtEvent(s)
		}
	}
	if o := t.occupied; o != nil && s.phase == sending && s.call.verb == "delete" && s.label == "delete "+o.id {
		o.deleted = true
	}
	if s.held || t.result.pruned || s.phase > ordering && s.process.dead {
		return
	}
	if s.phase == delivering && v == pass && !t.enabled(s) {
		return // frozen at this event: it stays
	}
	if s.phase != ordering && (s.phase != committing || s.process == nil) {
		t.logStep(s, v)
	}
	t.gate.release(s, v)
}

// visit numbers a point that is reached for the first time, and records the state before it. It
// returns false for a point that a fault has delayed.
func (t *trial) visit(p *Point) bool {
	if p.N > 0 {
		return false
	}
	p.Object = t.history.names.masked(p.Object)
	t.progress.counts[*p]++
	p.N = t.progress.counts[*p]
	t.result.points = append(t.result.points, visit{Point: *p, before: t.history.sum, after: t.history.sum,
		inputs: t.inputs, removed: t.history.removal > 0})
	t.progress.revisions[*p] = t.env.Plane().Store().Snapshot().Revision()
	return true
}

// visited records the state after a write.
func (t *trial) visited(p Point) {
	for i := range slices.Backward(t.result.points) {
		if t.result.points[i].Point == p {
			t.result.points[i].after = t.history.sum
			return
		}
	}
}

// find returns the plan's fault at a point, if its kind is one of kinds; otherwise its kind is
// empty.
func (t *trial) find(p Point, kinds ...Kind) Fault {
	for i, f := range t.plan {
		if f.At == p && !t.progress.done[i] && slices.Contains(kinds, f.Kind) {
			t.progress.done[i] = true
			t.progress.fired++
			t.log(fmt.Sprintf("FAULT %s", f))
			return f
		}
	}
	return Fault{}
}

// manyAttempts is the number of equal requests after which the backoff of an operator may be longer
// than the time after which it counts as quiet: a backoff of 5 ms that doubles each time is then
// longer than twenty seconds.
const manyAttempts = 12

func (t *trial) faultBefore(s *step) verdict {
	if t.delays.denied[s.call.verb+" "+s.call.resource] {
		return denied
	}
	if v := t.verdictOf(s.call); v != pass {
		return v
	}
	f := t.find(s.point, KillBefore, Conflict, TooMany, Internal, Hold, HoldInput, TwoLeaders, Deny, ForeignWrite,
		foreignFirst, foreignLast,
		Revoke, Quota, ServerRestart, Occupied, Mutate)
	switch f.Kind {
	case KillBefore:
		t.crash()
	case Conflict:
		t.delays.denials = t.delays.denials || s.point.N > manyAttempts
		return conflict
	case TooMany:
		t.delays.denials = t.delays.denials || t.wire != nil || s.point.N > manyAttempts
		return tooMany
	case Internal:
		t.delays.denials = t.delays.denials || s.point.N > manyAttempts
		return internal
	case Hold:
		s.held = true
	case HoldInput:
		s.held, s.until = true, t.inputs+1
	case ForeignWrite, foreignFirst, foreignLast:
		t.foreign = &foreign{fault: f, object: t.stored(s.call)}
		if f.Kind != foreignLast && t.foreign.object != nil {
			t.foreign.step, s.held = s, true
		}
	case TwoLeaders:
		s.held = true
		t.gate.suspend(t.process, s)
		t.startNext()
	case Revoke:
		t.delays.outage.revoked[s.call.base()], t.delays.denials = true, true
		return forbidden
	case Quota:
		t.delays.outage.exceeded[s.call.resource], t.delays.denials = true, true
		return exceeded
	case ServerRestart:
		t.restartServer()
		return unreachable
	case Occupied:
		t.occupy(s)
	case Mutate:
		t.mutating, s.held = s, true
	case Deny:
		t.delays.denied[s.call.verb+" "+s.call.resource], t.delays.denials = true, true
		return denied
	}
	return pass
}

func (t *trial) faultAfter(s *step) verdict {
	switch t.find(s.point, KillAfter, KillStale, KillOld, Lose, SlowResponse).Kind {
	case SlowResponse:
		s.held = true
	case KillAfter:
		t.crash()
	case KillStale:
		t.crashTo(t.progress.revisions[s.point])
	case KillOld:
		if t.history.removal == 0 {
			break // nothing was removed before; only a hand-written plan asks for this
		}
		t.crashTo(t.history.removal - 1)
	case Lose:
		return lost
	}
	return pass
}

func (t *trial) faultAtEvent(s *step) verdict {
	switch t.find(s.point, Freeze, FreezeAll, Cut, ServerRestart).Kind {
	case Freeze:
		t.delays.freeze(s.call.resource, s.revision)
	case FreezeAll:
		t.delays.freeze(everything, s.revision)
	case Cut:
		t.delays.cut[s.call.resource] = true
		return cut
	case ServerRestart:
		t.restartServer()
		return cut
	}
	return pass
}

// crashTo kills the process. The cached reads of the next one show the state at a revision.
func (t *trial) crashTo(revision uint64) {
	t.delays.freezeTo(&view{revision: revision, stale: true})
	t.log(fmt.Sprintf("the next process is connected to a server whose cache has revision %d", revision))
	t.crash()
}

// crash kills the operator's process and starts the next one.
func (t *trial) crash() {
	t.process.kill()
	t.forgetErrors()
	if t.seenBefore() {
		t.result.pruned = true
		return
	}
	t.startNext()
}

// startNext starts another process of the operator. It releases delayed lists first: otherwise the
// new process would time out before everything else is quiet.
func (t *trial) startNext() {
	t.delays.serveLists()
	t.releaseLeases()
	t.startProcess()
}

// release ends the delays of faults, one kind after the other, and reports whether it has ended
// any.
func (t *trial) release() bool {
	what := t.delays.end()
	switch {
	case what == volumesCreated:
		t.gate.unhold(t.inputs, t.last)
	case what == "" && t.gate.unhold(t.inputs, t.last):
		what = "the held requests continue"
	case what == "":
		return false
	}
	t.log(what)
	return true
}
