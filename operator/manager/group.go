package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"kelson.dev/operator/leader"
)

// Runnable is something with the life of the manager: Run returns soon after ctx has ended. An error ends the manager.
type Runnable interface {
	Run(ctx context.Context) error
}

// Func is a function as a Runnable.
type Func func(ctx context.Context) error

// Run calls f.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// group is a set of runnables that are stopped together.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	failed func(error) // told of each error
	wg     sync.WaitGroup
}

// newGroup's members get the values of ctx, but don't end with it.
func newGroup(ctx context.Context, failed func(error)) *group {
	g := &group{failed: failed}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return g
}

func (g *group) start(r Runnable) {
	g.wg.Go(func() {
		if err := r.Run(g.ctx); err != nil && g.ctx.Err() == nil {
			g.failed(err)
		}
	})
}

// stop ends the members, who can ask for the cause, and waits for them until the time is up. The error is leader.ErrStillWorking if some have not
// ended then.
func (g *group) stop(what string, timeUp context.Context, cause error) error {
	g.cancel(cause)
	ended := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-timeUp.Done():
	}
	// What is stopped after something else has used up the time still gets a moment.
	timer := time.NewTimer(stopMoment)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return fmt.Errorf("stop: %s: %w", what, leader.ErrStillWorking)
	}
}

// stopMoment is how long a group may take to stop when the time is up.
const stopMoment = 100 * time.Millisecond

// runnables are kept until their group is started; what is added later starts at once.
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
