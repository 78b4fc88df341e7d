package testenv

import (
	"testing"
)

// Fork starts a control plane that begins with the state of this one: its objects, its custom kinds, its revision. Writes in one are not
// seen in the other. It takes the same time whatever the state holds, since nothing is copied until it is changed.
//
// The fork ends with t, which may be another test than that of e, and e may have ended already. It has the nodes, the scheme, the ServiceAccount
// and the log of e unless opts say otherwise; what was given to Run runs in e alone. CRDs of opts are installed beside those that are there.
//
// Fork may be called inside a testing/synctest bubble for an Env from outside, and the other way round. Objects keep their times: in a bubble,
// where it is the year 2000, those from outside are of the future.
func (e *Env) Fork(t testing.TB, opts ...Option) *Env {
	t.Helper()
	o := e.made
	o.crds, o.rbac, o.run = nil, nil, nil
	o.plane.From = e.plane.Store().Snapshot()
	o.plane.NodeDir = "" // containers are not copied
	return start(t, o, opts)
}
