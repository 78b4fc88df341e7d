package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kelson.dev/operator/leader"
)

// stopMargin is how much longer shutdown may take than the grace period, which applies to
// reconciles.
const stopMargin = 5 * time.Second

// Run runs everything until ctx ends or a part fails, and stops it. It can be called only once. It
// returns nil if ctx ended and everything stopped in time, otherwise the error of the part that
// failed: leader.ErrLost if another replica may lead, leader.ErrStillWorking if a part did not stop
// in time, or if a leader's reconcile was canceled at the end of the grace period. In both of these
// cases, the process should exit.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.ran {
		m.mu.Unlock()
		return errors.New("run manager: already run")
	}
	m.ran = true
	m.mu.Unlock()
	defer m.own.closeIdleConnections()

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The first failure stops everything; later failures are consequences.
	failed := func(err error) { end(&failure{err}) }
	groups := struct{ servers, hooks, sources, others, leaders *group }{
		newGroup(ctx, failed), newGroup(ctx, failed), newGroup(ctx, failed), newGroup(ctx, failed),
		newGroup(ctx, failed),
	}
	// If another replica may be working, stop all work immediately instead of group by group.
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
	// The election includes the leader's work: it releases the Lease only after the work has ended.
	lead := func(leading context.Context) error {
		// The informers may not have the last writes of the previous leader yet.
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
			end(&failure{context.Cause(leading)}) // the grace period starts now
		}
		if err := groups.leaders.stop("controllers", timeUp, context.Cause(leading)); err != nil ||
			m.cfg.Election == nil {
			return err
		}
		return groups.leaders.unfinished()
	}
	var electionErr error
	if ctx.Err() == nil { // the webhooks are served
		m.mu.Lock()
		m.sources.startIn(groups.sources)
		groups.sources.start(m.own.events)
		m.others.startIn(groups.others)
		m.mu.Unlock()
		electionErr = m.elect(ctx, lead)
	}
	if electionErr != nil && ctx.Err() == nil {
		failed(electionErr)
	}
	m.mu.Lock()
	m.others.stopped, m.sources.stopped, m.leaders.stopped = true, true, true
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

// failure is the cause if a manager stopped because of an error.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// deadlineAfter returns a context that ends some time after ctx has ended.
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

// elect calls lead when this replica leads, or immediately without leader election.
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
		return fmt.Errorf("leader election needs the namespace of its Lease %q, and the program does not run in a cluster: set --leader-election-namespace or Election.Lease.Namespace", cfg.Lease.Name)
	}
	status := m.metrics.leading.WithLabelValues(cfg.Lease.Name)
	status.Set(0)
	callback := cfg.Leading
	cfg.Leading = func(leading bool) {
		status.Set(map[bool]float64{true: 1}[leading])
		if leading {
			m.own.events.Recorder(m.cfg.Name).Event(leaseOf(cfg.Lease), "Normal", "LeaderElection",
				cfg.Identity+" became leader")
		}
		if callback != nil {
			callback(leading)
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
