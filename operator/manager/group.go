package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/operator/leader"
)

// Runnable runs as long as the manager: Run must return soon after ctx ends. If it returns an
// error, the manager stops. The manager's Run returns the error, also if ctx has ended before,
// unless the error wraps context.Canceled or the cause of ctx.
type Runnable interface {
	Run(ctx context.Context) error
}

// Func adapts a function to a Runnable.
type Func func(ctx context.Context) error

// Run calls f.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// group is a set of runnables that are stopped together.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	failed func(error) // called with each error
	wg     sync.WaitGroup
	cut    atomic.Pointer[error] // of a member that was stopped in the middle of its work
	late   errorList             // of members that failed after the group was stopped
}

// errorList collects errors. It is safe for concurrent use.
type errorList struct {
	mu  sync.Mutex
	all []error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, err)
}

func (l *errorList) joined() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.all...)
}

// newGroup returns a group whose members get the values of ctx, but do not end with it.
func newGroup(ctx context.Context, failed func(error)) *group {
	g := &group{failed: failed}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return g
}

func (g *group) start(r Runnable) {
	g.wg.Go(func() {
		err := r.Run(g.ctx)
		switch {
		case err == nil:
		case g.ctx.Err() == nil:
			g.failed(err)
		case errors.Is(err, leader.ErrStillWorking):
			g.cut.Store(&err)
		case !errors.Is(err, context.Canceled) && !errors.Is(err, context.Cause(g.ctx)):
			g.late.add(err)
		}
	})
}

// stop cancels the members with a cause and waits for them until timeUp. It returns
// leader.ErrStillWorking if some have not ended by then, and otherwise the errors with which
// members ended, except those that are the end of the context.
func (g *group) stop(what string, timeUp context.Context, cause error) error {
	g.cancel(cause)
	ended := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return g.late.joined()
	case <-timeUp.Done():
	}
	// If earlier groups have used up the time, this one still gets a short time.
	timer := time.NewTimer(stopMoment)
	defer timer.Stop()
	select {
	case <-ended:
		return g.late.joined()
	case <-timer.C:
		return fmt.Errorf("stop: %s: %w", what, leader.ErrStillWorking)
	}
}

// unfinished returns a leader.ErrStillWorking if a member has ended, but its last requests may
// still be on their way to the server.
func (g *group) unfinished() error {
	if err := g.cut.Load(); err != nil {
		return *err
	}
	return nil
}

// stopMoment is how long a group may take to stop after the time is up.
const stopMoment = 100 * time.Millisecond

// runnables holds runnables until their group starts; runnables that are added later start
// immediately.
type runnables struct {
	waiting []Runnable
	group   *group
	stopped bool
}

func (r *runnables) add(each Runnable) {
	switch {
	case r.stopped:
	case r.group != nil:
		r.group.start(each)
	default:
		r.waiting = append(r.waiting, each)
	}
}

func (r *runnables) startIn(g *group) {
	r.group = g
	for _, each := range r.waiting {
		g.start(each)
	}
	r.waiting = nil
}
