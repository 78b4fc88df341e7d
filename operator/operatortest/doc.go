// Package operatortest gives a test a control plane of its own, from the kelson binary.
//
//	func TestAt(t *testing.T) {
//		env := operatortest.New(t, operatortest.CRDs("../config/crd"), operatortest.Run(startOperator))
//		at := atDueNow()
//		env.Create(t, at)
//		env.Eventually(t, 10*time.Second, func() bool {
//			env.Get(t, at)
//			return at.Status.Phase == cnat.Done
//		})
//	}
//
// It has the calls of kelson.dev/lab/testenv, which runs control planes in the test's own process and in virtual time; whoever can require the whole of
// kelson.dev is better off with that. This package needs nothing but the operator library and the binary: what KELSON names, or the "kelson" that is found
// in PATH.
//
// # Model
//
// The first test of a process that asks for a control plane starts one kelson; all tests of the process share it. Each gets a throwaway plane with
// a URL of its own, made in milliseconds and dropped at the test's end. What CRDs installs is installed once: other tests with the same manifests begin with a
// copy-on-write fork of that state.
//
//	test process ── stdin (held open) ──▶ kelson serve --planes --exit-with-stdin
//	  TestA ─────── https …/planes/1 ──▶   plane 1
//	  TestB ─────── https …/planes/2 ──▶   plane 2
//
// Kelson ends when its standard input does, and that is when the test process ends, however it ends.
//
// An Env may be used by several goroutines of its test. It speaks over real sockets, so it does not work inside a testing/synctest bubble.
package operatortest
