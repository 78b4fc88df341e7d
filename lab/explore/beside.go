package explore

// Beside has the former version run from the beginning. Before the N-th input, the newest version
// starts beside it, as in a rolling update: both run, with leader election if the operator has it,
// until they are quiet after the input. Then the former version ends. At the end, the objects must
// be as without the former version (O1, O9).
const Beside Kind = "beside"

// startBeside starts the newest version beside the former one, if the plan has Beside at the n-th
// input. It reports whether the trial can continue.
func (t *trial) startBeside(n int) bool {
	for _, f := range t.setup.plan {
		if f.Kind == Beside && f.At.N == n {
			t.result.log(string(newest) + " starts beside the former one")
			t.operator.former, t.operator.variant = t.operator.process, newest
			t.operator.startNext()
			return t.settle()
		}
	}
	return true
}

// endFormer ends the process of the former version that runs beside the newest one.
func (op *processes) endFormer() {
	if op.former != nil {
		op.result.log(string(former) + " ends")
		op.former.kill()
		op.former = nil
		op.observed.forgetErrors()
	}
}
