package explore

import (
	"sync/atomic"
	"time"
)

// delays are the effects of faults that last until everything else is quiet.
type delays struct {
	late    time.Time        // since when events or lists wait
	frozen  map[string]bool  // resources whose events wait
	views   map[string]*view // older states that cached reads of a resource see
	cut     map[string]bool  // resources whose watches and lists wait
	refused map[string]bool  // cut resources whose next watch was refused
	denied  map[string]bool  // writes, by verb and resource
	unbound map[string]bool  // claims whose volumes wait
	closed  map[string]bool  // services that end connections
	outage  outage
	down    atomic.Int64 // outage.up, for other goroutines
	// denials is true after requests have failed so often that the next attempt may be late.
	denials bool
}

func newDelays() *delays {
	return &delays{frozen: map[string]bool{}, views: map[string]*view{}, cut: map[string]bool{},
		refused: map[string]bool{}, denied: map[string]bool{}, unbound: map[string]bool{}, closed: map[string]bool{},
		outage: outage{revoked: map[string]bool{}, exceeded: map[string]bool{}}}
}

// allow reports whether a step of the operator may pass now.
func (d *delays) allow(s *step) bool {
	resource := s.call.resource
	switch {
	case s.phase == delivering:
		return s.initial || !d.frozen[resource] && !d.frozen[everything]
	case s.phase == sending && d.cut[resource]:
		// The first new watch is refused, and the list after it waits.
		return s.call.watch && !d.refused[resource]
	}
	return true
}

// freeze delays the events of a resource, or of everything, from a revision on. The server's cache
// is late, so reads that it may answer show the state before the event, too.
func (d *delays) freeze(resource string, revision uint64) {
	d.begin()
	d.frozen[resource] = true
	if revision > 0 {
		d.views[resource] = &view{revision: revision - 1}
	}
}

// freezeTo delays all events, and lets cached reads show an older state.
func (d *delays) freezeTo(v *view) {
	d.begin()
	d.frozen[everything] = true
	d.views[everything] = v
}

// cutOff makes new lists of a resource, or of everything, wait.
func (d *delays) cutOff(resource string) {
	d.begin()
	d.cut[resource] = true
}

// begin notes that events or lists wait from now on.
func (d *delays) begin() {
	if len(d.frozen)+len(d.cut) == 0 {
		d.late = time.Now()
	}
}

// left returns how long events or lists may still wait, and whether any do.
func (d *delays) left(lag time.Duration) (time.Duration, bool) {
	if len(d.frozen)+len(d.cut) == 0 {
		return 0, false
	}
	return max(0, lag-time.Since(d.late)), true
}

// refusing reports whether the server refuses requests of some kind.
func (d *delays) refusing() bool {
	return len(d.denied)+len(d.outage.revoked)+len(d.outage.exceeded)+len(d.closed) > 0
}

// serveLists lets the lists and watches of cut resources pass.
func (d *delays) serveLists() {
	clear(d.cut)
	clear(d.refused)
}

// volumesCreated is the text of the end of the delay of volumes.
const volumesCreated = "the volumes are created"

// end ends the delays of one kind, and returns what has ended; "" for nothing.
func (d *delays) end() string {
	switch {
	case len(d.frozen) > 0:
		clear(d.frozen)
		clear(d.views)
		return "the frozen events are delivered"
	case len(d.cut) > 0:
		d.serveLists()
		return "the lists are served"
	case len(d.denied) > 0:
		clear(d.denied)
		return "writes are no longer denied"
	case len(d.outage.revoked) > 0:
		clear(d.outage.revoked)
		return "the rights are granted again"
	case len(d.outage.exceeded) > 0:
		clear(d.outage.exceeded)
		return "the quota is raised"
	case len(d.closed) > 0:
		clear(d.closed)
		return "the services respond again"
	case len(d.unbound) > 0:
		clear(d.unbound)
		return volumesCreated
	}
	return ""
}
