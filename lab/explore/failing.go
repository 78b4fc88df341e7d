package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kelson.dev/operator/client"
)

// failing holds the errors that the reconciles of one object have returned since the last change.
type failing struct {
	times int
	last  time.Time
	text  string
}

// wireAttempts is the number of failures of a reconcile after which its error may be persistent.
// wireBackoff is how long the next attempt may then take: controllers begin with a pause of five
// milliseconds between two attempts, and double it each time.
const (
	wireAttempts = 7
	wireBackoff  = 2 * time.Second
)

// confirmErrors records the errors of a Binary that persist. If a reconcile has failed often, it
// first waits long enough for another attempt.
func (t *trial) confirmErrors() bool {
	t.observed.mu.Lock()
	any := false
	for _, f := range t.observed.errors {
		any = any || f.times >= wireAttempts
	}
	t.observed.mu.Unlock()
	if !any || t.oracles.unusual {
		return true
	}
	begin := time.Now()
	if !t.pass(wireBackoff) {
		return false
	}
	t.oracles.noteErrors(begin)
	return true
}

// forgetErrors is called when something has changed: the next attempt may succeed.
func (o *observed) forgetErrors() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.errors)
}

// fails reports whether a reconcile has failed several times, and at least once after the given
// moment.
func (o *observed) fails(since time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.errors {
		if f.times > 1 && f.last.After(since) {
			return true
		}
	}
	return false
}

// persistent returns an alarm (O3) for errors that persist in this run and did not in others. If
// the error of an object persists without faults, that of a copy is expected.
func persistent(r *result, reference *outcomes) []Alarm {
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(r.failing)) {
		known := id
		if slices.Contains(r.failingCopies, id) {
			known = id[:strings.LastIndexByte(id, '-')]
		}
		if _, expected := reference.failing[known]; !expected {
			lines = append(lines, id+": "+r.failing[id])
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []Alarm{{Oracle: "O3", What: "a reconcile fails again and again", Detail: strings.Join(lines, "\n")}}
}

// noteErrors records the errors that persist: those of reconciles that have failed again after
// since, when the operator was otherwise quiet. If since is zero, it records nothing.
func (o *oracles) noteErrors(since time.Time) {
	if since.IsZero() || o.unusual {
		return
	}
	o.observed.mu.Lock()
	defer o.observed.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(o.observed.errors)) {
		if f := o.observed.errors[id]; f.times > 1 && f.last.After(since) {
			if o.result.failing == nil {
				o.result.failing = map[string]string{}
			}
			o.result.failing[id] = f.text
			if o.progress.isCopy(id) {
				o.result.failingCopies = append(o.result.failingCopies, id)
			}
			o.result.log(fmt.Sprintf("the reconcile of %s fails again and again: %s", id, f.text))
		}
	}
}

// isCopy reports whether an error is about a copy that Batch has created.
func (p *progress) isCopy(id string) bool {
	return slices.ContainsFunc(p.copies, func(obj client.Object) bool {
		return strings.HasSuffix(id, "/"+obj.GetName()) || strings.HasSuffix(id, " "+obj.GetName())
	})
}

// failed records that a reconcile has returned an error. The id names the controller and the
// object.
func (op *processes) failed(p *process, id, text string) {
	if op.gate.isDead(p) {
		return
	}
	op.observed.mu.Lock()
	defer op.observed.mu.Unlock()
	id = op.prefix() + id
	f := op.observed.errors[id]
	if f == nil {
		f = &failing{}
		op.observed.errors[id] = f
	}
	f.times, f.last, f.text = f.times+1, time.Now(), text
}
