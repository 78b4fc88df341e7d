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
	times       int
	first, last time.Time
	text        string
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
	t.oracles.failing = nil
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
	o.failing = map[string]string{}
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
			o.failing[id] = fmt.Sprintf("%s (%d times in %v)", f.text, f.times, f.last.Sub(f.first).Round(time.Second))
			if o.progress.isCopy(id) {
				o.result.failingCopies = append(o.result.failingCopies, id)
			}
			o.result.log(fmt.Sprintf("the reconcile of %s fails again and again: %s", id, f.text))
		}
	}
}

// keepErrors records the errors that noteErrors has found last as those that do not end: no input
// follows that would let the reconcile succeed.
func (o *oracles) keepErrors() {
	if o.result.lasting == nil {
		o.result.lasting = map[string]string{}
	}
	maps.Copy(o.result.lasting, o.failing)
}

// lasting returns the reconciles that return errors, without any fault, after all inputs or when
// the objects of the inputs were deleted, with the last error and in how many runs. The scenario
// may expect some; they do not count.
func (b *baseline) lasting(expected []string) map[string]string {
	texts, runs := map[string]string{}, map[string]int{}
	for _, r := range b.outcomes.runs {
		for id, text := range r.lasting {
			if !slices.ContainsFunc(expected, func(pattern string) bool { return matches(pattern, id) }) {
				texts[id], runs[id] = text, runs[id]+1
			}
		}
	}
	for id, n := range runs {
		if all := len(b.outcomes.runs); n < all {
			texts[id] += fmt.Sprintf(" (in %d of %d runs)", n, all)
		}
	}
	return texts
}

// failures returns an alarm (O3) for reconciles that never succeed, without any fault.
func (b *baseline) failures(expected []string) []Alarm {
	found := b.lasting(expected)
	if len(found) == 0 {
		return nil
	}
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, id+": "+found[id])
	}
	lines = append(lines, "If the operator returns an error deliberately, list the reconcile in Failing, which is "+
		"failing in "+ConfigFile+".")
	a := Alarm{Oracle: "O3", What: "a reconcile fails again and again without any fault",
		Detail: strings.Join(lines, "\n")}
	a.complete(nil, b.first, nil, len(b.outcomes.runs), len(b.outcomes.runs))
	return []Alarm{a}
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
	if f.times == 0 {
		f.first = time.Now()
	}
	f.times, f.last, f.text = f.times+1, time.Now(), text
}
