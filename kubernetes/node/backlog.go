package node

import (
	"runtime"
	"sync/atomic"
)

// Backlog counts the reports of pods that are in progress, of all agents that share it. While there
// are many, agents report new pods only once, when their simulated containers have started. The
// zero Backlog is ready for use. nil counts nothing and is never busy. It is safe for concurrent
// use.
type Backlog struct{ reports atomic.Int64 }

// maxReports returns how many reports of agents can be in progress before a Backlog is busy: two
// for each processor. Further reports wait for a processor.
func maxReports() int64 { return 2 * int64(runtime.GOMAXPROCS(0)) }

// begin counts a report until end is called.
func (b *Backlog) begin() (end func()) {
	if b == nil {
		return func() {}
	}
	b.reports.Add(1)
	return func() { b.reports.Add(-1) }
}

func (b *Backlog) busy() bool { return b != nil && b.reports.Load() >= maxReports() }
