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
// earlier run without an alarm had an equal crash. The memory of other operators is not lost, so
// with these no crash is recorded.
func (in *injector) seenBefore() bool {
	open := slices.Contains(in.progress.done, false) || !in.order.fixed() || in.setup.probe != nil ||
		in.branch != nil || in.setup.wire != nil ||
		len(in.setup.plan.actions()) > 0 || len(in.delays.frozen) > 0 || in.delays.refusing() || in.gate.holds() ||
		len(in.operator.others) > 0
	if open {
		return false
	}
	if err := in.history.read(); err != nil {
		return false // the next turn reports the error
	}
	at := moment{in.history.sum, digest(in.history.counts.withoutUpdates()), in.progress.inputs, in.setup.noWatchLists}
	in.result.crashes = append(in.result.crashes, at)
	return in.setup.earlierCrashes[at]
}
