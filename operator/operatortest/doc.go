// Package operatortest gives each test its own control plane, using the kelson binary.
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
// It has the functions and methods of kelson.dev/lab/testenv with the same parameters, except:
//
//   - Settle, because a test can't observe when another process is idle: use Eventually
//   - Log and Plane, because the control plane is another process
//   - some options that planes of a shared process cannot have: docs/guides/testing.md lists them
//   - the type of Nodes' argument, because testenv's type is in the control plane's module
//
// testenv runs control planes in the test's own process and in virtual time; prefer it if your
// module can require all of kelson.dev. This package needs only the operator library and the
// binary: the file in the environment variable KELSON, or "kelson" in PATH.
//
// # Model
//
// The first test of a process that needs a control plane starts one kelson process, which all tests
// of the process share. Each test gets a throwaway control plane with its own URL, created in
// milliseconds and deleted when the test ends. Manifests passed to CRDs are installed once: other
// tests with the same manifests start with a copy-on-write fork of that state.
//
//	test process ── stdin (held open) ──▶ kelson serve --planes --exit-with-stdin
//	  TestA ─────── https …/planes/1 ──▶   plane 1
//	  TestB ─────── https …/planes/2 ──▶   plane 2
//
// Kelson exits when its standard input is closed, which happens whenever the test process ends,
// even if it crashes.
//
// An Env is safe for use by several goroutines of its test. It uses real sockets, so it does not
// work inside a testing/synctest bubble.
package operatortest
