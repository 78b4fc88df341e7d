package node

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// Backlog knows what the agents that share it do at once. While many reports of pods are in
// progress, agents report new pods only once, when their simulated containers have started. And few
// agents join the cluster at once: thousands that start together would hold the memory of as many
// requests, and scatter their own small objects over it. nil bounds nothing and is never busy.
// A Backlog is safe for concurrent use.
type Backlog struct {
	reports atomic.Int64
	joins   chan struct{} // a value for each agent that joins
}

// NewBacklog returns the Backlog of agents that run in one process.
func NewBacklog() *Backlog { return &Backlog{joins: make(chan struct{}, maxJoins())} }

// maxReports returns how many reports of agents can be in progress before a Backlog is busy: two
// for each processor. Further reports wait for a processor.
func maxReports() int64 { return 2 * int64(runtime.GOMAXPROCS(0)) }

// maxJoins returns how many agents can join at once: eight for each processor. With two, 5,000
// nodes join in 21 s instead of 16: agents often wait until a write is committed.
func maxJoins() int { return 8 * runtime.GOMAXPROCS(0) }

// begin counts a report until end is called.
func (b *Backlog) begin() (end func()) {
	if b == nil {
		return func() {}
	}
	b.reports.Add(1)
	return func() { b.reports.Add(-1) }
}

func (b *Backlog) busy() bool { return b != nil && b.reports.Load() >= maxReports() }

// patience is how long an agent waits for others that join, at most: a server that is slow to
// answer some must not stop all.
const patience = 30 * time.Second

// join waits until an agent can join, for at most the patience, or until ctx ends. end must be
// called when the agent has joined.
func (b *Backlog) join(ctx context.Context) (end func()) {
	if b == nil {
		return func() {}
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case b.joins <- struct{}{}:
		return func() { <-b.joins }
	case <-timeout.C:
	case <-ctx.Done():
	}
	return func() {}
}
