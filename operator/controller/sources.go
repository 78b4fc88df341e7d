package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// sources manages the sources of a controller.
type sources struct {
	queue    Queue
	patience time.Duration // how long a source may take to start

	mu      sync.Mutex
	ctx     context.Context // parent of the started sources' contexts; nil before start
	members []*member
}

type member struct {
	source  Source
	cluster string // cluster of its objects; empty for the manager's own
	cancel  context.CancelFunc
	synced  <-chan struct{} // this, cancel and ended are nil before the source is started
	ended   <-chan struct{}
}

// add adds a source, and starts it if start was called.
func (s *sources) add(source Source) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &member{source: source, cluster: clusterOf(source)}
	if err := s.startMember(m); err != nil {
		return nil, err
	}
	s.members = append(s.members, m)
	return func() { s.end(func(other *member) bool { return other == m }) }, nil
}

// disengage stops the sources of a cluster.
func (s *sources) disengage(cluster string) {
	s.end(func(m *member) bool { return m.cluster == cluster })
}

// end stops and removes the sources for which match returns true.
func (s *sources) end(match func(*member) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(m *member) bool {
		if !match(m) {
			return false
		}
		if m.cancel != nil {
			m.cancel()
		}
		return true
	})
}

// start starts all sources. Later calls do nothing.
func (s *sources) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		return nil
	}
	s.ctx = ctx
	for _, m := range s.members {
		if err := s.startMember(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *sources) startMember(m *member) error {
	if s.ctx == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	synced, err := s.startSource(ctx, m.source)
	if err != nil {
		cancel()
		return err
	}
	m.cancel, m.synced, m.ended = cancel, synced, ctx.Done()
	return nil
}

// startSource calls a source's method Start. It returns an error if that blocks, which would
// otherwise stop the controller without a trace.
func (s *sources) startSource(ctx context.Context, source Source) (synced <-chan struct{}, err error) {
	started := make(chan struct{})
	var ready <-chan struct{}
	var failed error
	go func() {
		ready, failed = source.Start(ctx, s.queue)
		close(started)
	}()
	timeout := time.NewTimer(s.patience)
	defer timeout.Stop()
	select {
	case <-started:
		return ready, failed
	case <-ctx.Done():
		return nil, nil // the controller ends
	case <-timeout.C:
		return nil, fmt.Errorf("source %T did not start within %v: its method Start must not block", source, s.patience)
	}
}

func (s *sources) all() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.members)
}

// waitSynced waits for the current sources of the manager's own cluster. It does not wait for those
// of other clusters, because an unreachable cluster must not delay the others.
func (s *sources) waitSynced(ctx context.Context, patience time.Duration) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for _, m := range s.all() {
		if m.cluster != "" {
			continue
		}
		select {
		case <-m.synced:
		case <-m.ended:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			err := fmt.Errorf("sources not synced within %v", patience)
			if why, ok := m.source.(interface{ Unsynced() string }); ok {
				err = fmt.Errorf("%w: %s", err, why.Unsynced())
			}
			return err
		}
	}
	return ctx.Err()
}
