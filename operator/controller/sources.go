package controller

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sources are the sources of a controller, and what became of them.
type sources struct {
	queue *Queue

	mu      sync.Mutex
	ctx     context.Context // of those that are started; nil before
	members []*member
}

type member struct {
	source  Source
	removed bool
	cancel  context.CancelFunc
	synced  <-chan struct{}
}

// add adds a source and starts it if the others are.
func (s *sources) add(source Source) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &member{source: source}
	if err := s.startMember(m); err != nil {
		return nil, err
	}
	s.members = append(s.members, m)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if m.removed = true; m.cancel != nil {
			m.cancel()
		}
	}, nil
}

// start, under no lock, starts all of them. It does nothing the second time.
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
	if s.ctx == nil || m.removed {
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	synced, err := m.source.Start(ctx, s.queue)
	if err != nil {
		cancel()
		return err
	}
	m.cancel, m.synced = cancel, synced
	return nil
}

func (s *sources) all() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*member
	for _, m := range s.members {
		if !m.removed {
			all = append(all, m)
		}
	}
	return all
}

// waitSynced waits for those that are there now.
func (s *sources) waitSynced(ctx context.Context, patience time.Duration) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for _, m := range s.all() {
		select {
		case <-m.synced:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			err := fmt.Errorf("the sources were not synced within %v", patience)
			if why, ok := m.source.(interface{ Unsynced() string }); ok {
				err = fmt.Errorf("%w: %s", err, why.Unsynced())
			}
			return err
		}
	}
	return nil
}
