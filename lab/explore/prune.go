package explore

import "slices"

// moment identifies a crash by all that determines the rest of the run, except for the time: the
// state of the control plane, how often objects were created and deleted, and how many inputs were
// made. The memory of the process is lost.
type moment struct {
	state, counts [32]byte
	inputs        int
	noWatchLists  bool
}

// seenBefore records a crash after which the plan has no more faults, and reports whether an
// earlier run without an alarm had an equal crash.
func (t *trial) seenBefore() bool {
	open := slices.Contains(t.progress.done, false) || t.random != nil || t.order != nil || t.probe != nil ||
		t.branch != nil || t.wire != nil ||
		len(t.plan.actions()) > 0 || len(t.delays.frozen) > 0 || t.delays.refusing() || t.gate.holds() ||
		t.processes != len(t.all)
	if open {
		return false
	}
	if err := t.history.read(); err != nil {
		return false // the next turn reports the error
	}
	at := moment{t.history.sum, digest(t.history.counts.withoutUpdates()), t.inputs, t.noWatchLists}
	t.result.crashes = append(t.result.crashes, at)
	return t.earlierCrashes[at]
}
