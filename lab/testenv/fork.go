package testenv

import (
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Fork starts a control plane whose initial state is that of this one: its objects, custom kinds
// and revision. Writes to one are not visible in the other. Fork takes the same time for any amount
// of state, because data is copied only when it changes.
//
// The fork ends with t, which may be another test than e's; e may have ended already. The fork has
// e's nodes, scheme, ServiceAccount and log unless opts change them. Functions that were passed to
// Run run only in e. CRDs in opts are installed in addition to the existing ones.
//
// A fork may run inside a testing/synctest bubble while e runs outside of it, and vice versa.
// Objects keep their timestamps: a bubble's clock starts in the year 2000, so objects created
// outside have timestamps in the future.
func (e *Env) Fork(t testing.TB, opts ...Option) *Env {
	t.Helper()
	return e.forkOf(t, e.plane.Store().Snapshot(), opts)
}

func (e *Env) forkOf(t testing.TB, state *store.Snapshot, opts []Option) *Env {
	t.Helper()
	o := e.options
	o.crds, o.rbac, o.role, o.run, o.hookPaths = nil, nil, nil, nil, nil
	o.plane.From = state
	if processes, ok := o.plane.Node.(controlplane.Processes); ok {
		processes.Dir = "" // containers are not copied, so the fork has its own directory
		o.plane.Node = processes
	}
	return start(t, o, opts)
}

// ForkAt does the same as Fork, from the state that e had at an earlier revision: the
// resourceVersion of a write. It fails the test if the control plane no longer has that state; it
// keeps a few thousand versions.
func (e *Env) ForkAt(t testing.TB, revision uint64, opts ...Option) *Env {
	t.Helper()
	state, err := e.plane.Store().At(revision)
	require.NoErrorf(t, err, "testenv: fork at revision %d", revision)
	return e.forkOf(t, state, opts)
}
