package explore

import "slices"

// moment is a crash that determines what comes after it: the state of the control plane, how often
// objects were created and deleted, and how many inputs were made. The memory of the process is
// lost. Only the time may differ.
type moment struct {
	state, counts [32]byte
	inputs        int
}

// seenBefore notes a crash after which nothing is left of the plan, and reports whether an earlier
// run, which raised no alarm, had the same.
func (t *trial) seenBefore() bool {
	open := slices.Contains(t.done, false) || t.random != nil || t.order != nil || t.probe != nil || t.branch != nil || t.wire != nil ||
		len(t.plan.actions()) > 0 || len(t.frozen)+len(t.denied) > 0 || t.gate.holds() || t.processes != len(t.all)
	if open {
		return false
	}
	if err := t.history.read(); err != nil {
		return false // the next turn reports it
	}
	at := moment{t.history.sum, digest([]any{t.history.creates, t.history.deletes}), t.inputs}
	t.result.crashes = append(t.result.crashes, at)
	return t.known[at]
}
