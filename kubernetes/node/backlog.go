package node

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Backlog knows what the agents that share it do at once. While many reports of pods are in
// progress, agents report new pods only once, when their simulated containers have started. And few
// agents join the cluster at once: thousands that start together would hold the memory of as many
// requests, and scatter their own small objects over it. The zero Backlog is ready for use. nil
// bounds nothing and is never busy. It is safe for concurrent use.
type Backlog struct {
	reports atomic.Int64

	once  sync.Once
	joins chan struct{} // a value for each agent that joins
}

// atOnce is how many agents can join at once, and how many reports can be in progress before a
// Backlog is busy: two for each processor. Further ones wait for a processor.
func atOnce() int { return 2 * runtime.GOMAXPROCS(0) }

// begin counts a report until end is called.
func (b *Backlog) begin() (end func()) {
	if b == nil {
		return func() {}
	}
	b.reports.Add(1)
	return func() { b.reports.Add(-1) }
}

func (b *Backlog) busy() bool { return b != nil && b.reports.Load() >= int64(atOnce()) }

// patience is how long an agent waits for others that join, at most: a server that is slow to
// answer some must not stop all.
const patience = 30 * time.Second

// join waits until an agent can join, for at most the patience, or until ctx ends. end must be
// called when the agent has joined.
func (b *Backlog) join(ctx context.Context) (end func()) {
	if b == nil {
		return func() {}
	}
	b.once.Do(func() { b.joins = make(chan struct{}, atOnce()) })
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
