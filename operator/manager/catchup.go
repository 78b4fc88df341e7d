package manager

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// catchUpPatience is how long the manager tries to catch up with its own cluster.
	catchUpPatience = 2 * time.Minute
	// catchUpRetry is the time between attempts, and how long a request waits at a time for a cluster that has not caught up.
	catchUpRetry = time.Second
	// memberPatience is how long the work waits for further clusters. Requests for those that take longer are put off.
	memberPatience = time.Second
)

// catchUp is called before this replica works on what another one may have worked on a moment ago. When it returns, the informers have everything that
// was written before. Requests for further clusters wait for the informers there: a cluster that is away does not hold up the others.
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

	own, cancel := context.WithTimeoutCause(ctx, catchUpPatience, fmt.Errorf("it took longer than %v", catchUpPatience))
	defer cancel()
	if err := m.catchUpCluster(own, m.own); err != nil {
		return fmt.Errorf("catch up with what another replica may have written: %w", err)
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

// catchUpMember catches up with a further cluster, unless that is disengaged or a context ends.
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

// catchUpCluster tries until it has caught up or ctx ends. The error is the last one.
func (m *Manager) catchUpCluster(ctx context.Context, c *Cluster) error {
	for {
		err := c.informers.CatchUp(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		m.cfg.Log.Warn("the work waits: the informers could not catch up with the server, and try again", "cluster", c.name, "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(catchUpRetry):
		}
	}
}
