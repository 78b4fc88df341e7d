package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// settle lets the operator and the control plane work until nothing has changed for the quiet
// period, and everything that faults delay has happened. It reports whether the trial can continue.
func (t *trial) settle() bool {
	if t.setup.wire != nil {
		return t.settleWire()
	}
	begin, last, steps, confirm := time.Now(), time.Now(), 0, time.Time{}
	var pauses pauses
	fired := t.progress.fired
	lag := orDefault(t.setup.scenario.Lag, defaultLag)
	quiet, horizon := t.quiet(), orDefault(t.setup.scenario.Horizon, defaultHorizon)
	t.history.writes = nil
	for {
		changed, step, ok := t.turn()
		if !ok {
			return false
		}
		if changed && t.setup.learning {
			if p := periodicOf(t.history.writes); p != nil {
				t.result.periodic = p.with(t.result.periodic)
				return true
			}
		}
		if changed || t.progress.fired > fired {
			// After a fault, the operator retries, perhaps after a long backoff.
			pauses.add(time.Since(last))
			last, fired = time.Now(), t.progress.fired
		}
		left, waits := t.delays.left(lag)
		switch {
		case step:
			if steps++; steps%maxDelay == 0 && t.injector.release() {
				last = time.Now()
			}
			if steps%stepsPerSecond == 0 {
				t.timing.sleep(time.Second) // the clock must advance during a hot loop, too
			}
			if steps > maxSteps {
				t.result.alarm("O4", "hot loop", t.result.loop(steps, time.Since(begin)))
				return false
			}
		case waits && left == 0:
			t.injector.release()
			last = time.Now()
			t.observed.forgetErrors()
		case time.Since(last) >= quiet:
			if t.delays.denials && !t.delays.refusing() {
				quiet, t.delays.denials = max(quiet, maxBackoff), false
				continue
			}
			if t.injector.release() {
				last = time.Now()
				t.observed.forgetErrors()
				continue
			}
			if confirm.IsZero() && t.observed.fails(last.Add(quiet/2)) {
				// The operator's next attempt may come after a long backoff.
				confirm, quiet = time.Now(), quiet+maxBackoff
				continue
			}
			t.oracles.noteErrors(confirm)
			return true
		case time.Since(begin) > horizon:
			t.result.alarm("O4", "never quiet", fmt.Sprintf("after %v objects still change: %s%s", horizon,
				strings.Join(slices.Compact(t.history.recent), ", "), pauses.advice()))
			return false
		default:
			pause := quiet - time.Since(last)
			if waits {
				pause = min(pause, left)
			}
			t.timing.await(pause)
		}
	}
}

// defaultLag is the default of Scenario.Lag.
const defaultLag = 4 * time.Minute

// quiet returns how long nothing must change until the operator counts as quiet.
func (t *trial) quiet() time.Duration {
	quiet := orDefault(t.setup.scenario.Quiet, defaultQuiet)
	switch p := t.setup.periodic; {
	case t.setup.learning:
		return max(quiet, defaultQuiet) // otherwise, periodic writes would not be found
	case p != nil:
		return max(quiet, 2*p.period)
	}
	return quiet
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
			t.timing.await(left)
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
	if t.setup.wire == nil && t.latest != nil && t.latest.phase > ordering {
		t.latest = nil
		synctest.Wait()
		t.timing.sleep(messageTime)
	}
	t.timing.wait()
	ctx := t.setup.ctx
	if t.setup.wire != nil {
		ctx = t.setup.t.Context()
	}
	if ctx.Err() != nil {
		t.result.failed = ctx.Err()
		return false, false, false
	}
	before := t.history.changes
	if err := t.history.read(); err != nil {
		t.result.failed = err
		return false, false, false
	}
	changed = t.history.changes > before || t.history.called
	if t.history.called = false; changed {
		t.observed.forgetErrors()
	}
	if t.result.pruned || !t.operator.running() || len(t.result.alarms) > 0 && t.result.alarms[0].fatal {
		return changed, false, false
	}
	for _, op := range t.operator.operators() {
		if op.stopped && !op.paused && !op.restartAt.IsZero() && !time.Now().Before(op.restartAt) {
			op.restartAt = time.Time{}
			t.progress.fired++ // the next process must become quiet
			op.resume()
		}
	}
	t.injector.leavePlan()
	if t.setup.wire == nil {
		// Generated names must not depend on other uses of random values.
		utilrand.Seed(int64(len(t.result.steps)))
	}
	if steps := t.gate.choices(t.injector.enabled); len(steps) > 0 {
		t.latest = t.injector.beforeResponse(t.order.choose(steps), steps)
		t.injector.execute(t.latest)
		return changed, true, t.actions.interrupt() && t.actions.createFirst() && t.actions.installFirst()
	}
	acted, ok := t.users.simulate()
	return changed, acted, ok
}

// manyAttempts is the number of equal requests after which the backoff of an operator may be longer
// than the time after which it counts as quiet: a backoff of 5 ms that doubles each time is then
// longer than twenty seconds.
const manyAttempts = 12
