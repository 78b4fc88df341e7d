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

// failed records that a reconcile has returned an error. The id names the controller and the
// object.
func (t *trial) failed(p *process, id, text string) {
	if t.gate.isDead(p) {
		return
	}
	t.observed.mu.Lock()
	defer t.observed.mu.Unlock()
	f := t.observed.errors[id]
	if f == nil {
		f = &failing{}
		t.observed.errors[id] = f
	}
	f.times, f.last, f.text = f.times+1, time.Now(), text
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
	if !any || t.unusual {
		return true
	}
	begin := time.Now()
	if !t.pass(wireBackoff) {
		return false
	}
	t.noteErrors(begin)
	return true
}

// forgetErrors is called when something has changed: the next attempt may succeed.
func (t *trial) forgetErrors() {
	t.observed.mu.Lock()
	defer t.observed.mu.Unlock()
	clear(t.observed.errors)
}

// fails reports whether a reconcile has failed several times, and at least once after the given
// moment.
func (t *trial) fails(since time.Time) bool {
	t.observed.mu.Lock()
	defer t.observed.mu.Unlock()
	for _, f := range t.observed.errors {
		if f.times > 1 && f.last.After(since) {
			return true
		}
	}
	return false
}

// noteErrors records the errors that persist: those of reconciles that have failed again after
// since, when the operator was otherwise quiet. If since is zero, it records nothing.
func (t *trial) noteErrors(since time.Time) {
	if since.IsZero() || t.unusual {
		return
	}
	t.observed.mu.Lock()
	defer t.observed.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(t.observed.errors)) {
		if f := t.observed.errors[id]; f.times > 1 && f.last.After(since) {
			if t.result.failing == nil {
				t.result.failing = map[string]string{}
			}
			t.result.failing[id] = f.text
			if t.isCopy(id) {
				t.result.failingCopies = append(t.result.failingCopies, id)
			}
			t.log(fmt.Sprintf("the reconcile of %s fails again and again: %s", id, f.text))
		}
	}
}

// isCopy reports whether an error is about a copy that Batch has created.
func (t *trial) isCopy(id string) bool {
	return slices.ContainsFunc(t.copies, func(obj client.Object) bool {
		return strings.HasSuffix(id, "/"+obj.GetName()) || strings.HasSuffix(id, " "+obj.GetName())
	})
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
