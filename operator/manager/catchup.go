package manager

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// catchUpPatience bounds how long the manager tries to catch up with its own cluster.
	catchUpPatience = 2 * time.Minute
	// catchUpRetry is the time between attempts, and the delay of a request for a cluster that has
	// not caught up.
	catchUpRetry = time.Second
	// memberPatience is how long the start of work waits for additional clusters. Requests for
	// those that take longer are delayed.
	memberPatience = time.Second
)

// catchUp is called before this replica takes over work from another replica. When it returns, the
// informers have everything that was written before. It does not wait long for additional clusters,
// because an unreachable cluster must not delay the others; requests for them wait instead.
func (m *Manager) catchUp(ctx context.Context) error {
	m.mu.Lock()
	var members sync.WaitGroup
	for _, c := range m.clusters {
		c.behind.Add(1)
		members.Add(1)
		m.sources.add(Func(func(running context.Context) error {
			defer members.Done()
			m.catchUpMember(ctx, running, c)
			return nil
		}))
	}
	running := m.sources.group != nil && !m.sources.stopped
	m.mu.Unlock()

	limited, cancel := context.WithTimeoutCause(ctx, catchUpPatience, fmt.Errorf("timeout after %v", catchUpPatience))
	defer cancel()
	if err := m.catchUpCluster(limited, m.own); err != nil {
		return fmt.Errorf("catch up with the writes of other replicas: %w", err)
	}
	if !running {
		return nil
	}
	all := make(chan struct{})
	go func() { members.Wait(); close(all) }()
	timer := time.NewTimer(memberPatience)
	defer timer.Stop()
	select {
	case <-all:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// catchUpMember catches up with an additional cluster, until it succeeds, the cluster is disengaged
// or a context ends.
func (m *Manager) catchUpMember(ctx, running context.Context, c *Cluster) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, other := range []context.Context{running, c.engaged} {
		defer context.AfterFunc(other, cancel)()
	}
	if m.catchUpCluster(ctx, c) == nil {
		c.behind.Add(-1)
	}
}

// catchUpCluster retries until it succeeds or ctx ends, and returns the last error.
func (m *Manager) catchUpCluster(ctx context.Context, c *Cluster) error {
	for {
		err := c.informers.CatchUp(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		m.cfg.Log.Warn("catch up with the server failed; work waits; retrying", "cluster", c.name, "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(catchUpRetry):
		}
	}
}
