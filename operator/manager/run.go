package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kelson.dev/operator/leader"
)

// stopMargin is what a stop may take beyond the grace period, which is that of the reconciles.
const stopMargin = 5 * time.Second

// Run runs everything until ctx ends or something fails, and stops it. It can be called once. The error is that of what failed, and
// nil when ctx was ended and all has stopped in time; leader.ErrLost when another replica may lead by now, and leader.ErrStillWorking when something
// did not stop in time: the process should end then.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.ran {
		m.mu.Unlock()
		return errors.New("the manager has run already")
	}
	m.ran = true
	m.mu.Unlock()

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The first failure ends all of it; others are its consequences.
	failed := func(err error) { end(&failure{err}) }
	groups := struct{ servers, hooks, sources, others, leaders *group }{
		newGroup(ctx, failed), newGroup(ctx, failed), newGroup(ctx, failed), newGroup(ctx, failed), newGroup(ctx, failed),
	}
	// When another replica may be working by now, all work ends at once, and not group after group.
	defer context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, leader.ErrLost) {
			groups.leaders.cancel(cause)
			groups.others.cancel(cause)
		}
	})()
	timeUp, stopTimer := deadlineAfter(ctx, m.cfg.GracePeriod+stopMargin)
	defer stopTimer()

	if err := m.startServers(groups.servers); err != nil {
		groups.servers.cancel(nil)
		return err
	}
	if err := m.hooks.start(ctx, m, groups.hooks); err != nil {
		failed(err)
	}
	m.mu.Lock()
	m.sources.startIn(groups.sources)
	groups.sources.start(m.own.events)
	m.others.startIn(groups.others)
	m.mu.Unlock()

	// The leader's work is part of the election: the Lease is given back when that has ended, and not if it does not end.
	electionErr := m.elect(ctx, func(leading context.Context) error {
		// The one that led before may have written what the informers do not have yet.
		var err error
		if m.cfg.Election != nil {
			err = m.catchUp(leading)
		}
		if err != nil && leading.Err() == nil {
			return err
		}
		if err == nil {
			m.mu.Lock()
			m.leaders.startIn(groups.leaders)
			m.mu.Unlock()
			close(m.elected)
		}
		<-leading.Done()
		m.mu.Lock()
		m.leaders.stopped = true
		m.mu.Unlock()
		if ctx.Err() == nil {
			end(&failure{context.Cause(leading)}) // the time to stop begins now
		}
		return groups.leaders.stop("controllers", timeUp, context.Cause(leading))
	})
	if electionErr != nil && ctx.Err() == nil {
		failed(electionErr)
	}
	m.mu.Lock()
	m.others.stopped, m.sources.stopped = true, true
	m.mu.Unlock()
	errs := []error{
		electionErr,
		groups.others.stop("runnables", timeUp, context.Cause(ctx)),
		groups.sources.stop("informers and events", timeUp, context.Cause(ctx)),
		groups.hooks.stop("webhooks", timeUp, context.Cause(ctx)),
		groups.servers.stop("servers", timeUp, context.Cause(ctx)),
	}
	if cause := (*failure)(nil); errors.As(context.Cause(ctx), &cause) && !errors.Is(electionErr, cause.err) {
		errs = append([]error{cause.err}, errs...)
	}
	return errors.Join(errs...)
}

// failure is why a manager ended by itself.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// deadlineAfter is a context that ends some time after ctx has.
func deadlineAfter(ctx context.Context, by time.Duration) (context.Context, func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}

// elect calls lead when this replica leads, or at once if there is no election.
func (m *Manager) elect(ctx context.Context, lead func(context.Context) error) error {
	if m.cfg.Election == nil {
		return lead(ctx)
	}
	cfg := *m.cfg.Election
	if cfg.Client == nil {
		cfg.Client = m.own.live
	}
	if cfg.Log == nil {
		cfg.Log = m.cfg.Log
	}
	if cfg.Lease.Namespace == "" {
		cfg.Lease.Namespace = InClusterNamespace()
	}
	if cfg.Lease.Namespace == "" {
		return fmt.Errorf("the election of a leader needs the namespace of its Lease %q: the program does not run in a cluster", cfg.Lease.Name)
	}
	status := m.metrics.leading.WithLabelValues(cfg.Lease.Name)
	status.Set(0)
	told := cfg.Leading
	cfg.Leading = func(leading bool) {
		status.Set(map[bool]float64{true: 1}[leading])
		if leading {
			m.own.events.Recorder(m.cfg.Name).Event(leaseOf(cfg.Lease), "Normal", "LeaderElection", cfg.Identity+" became leader")
		}
		if told != nil {
			told(leading)
		}
	}
	if cfg.Identity == "" {
		cfg.Identity = leader.NewIdentity()
	}
	e, err := leader.New(cfg)
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}
