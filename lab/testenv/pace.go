package testenv

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Kubernetes' libraries limit the errors passed to utilruntime.HandleError to one per millisecond:
// the reporter sleeps until a millisecond has passed since the last error in the process. In a
// testing/synctest bubble the clock is in the year 2000, so after an error outside the bubble, the
// first one inside would block its goroutine for decades. init replaces the limiter by one that
// handles clocks that go backwards.
//
// It runs in init because other packages may read ErrorHandlers at any later time.
func init() {
	for i := range utilruntime.ErrorHandlers {
		if i == 1 {
			utilruntime.ErrorHandlers[i] = (&pace{period: time.Millisecond}).wait
		}
	}
}

// letErrorsEnd waits for goroutines of Kubernetes' libraries that report a last error while their
// control plane stops. The libraries do not wait for them, and they must not outlive a bubble.
// Outside of bubbles it does nothing.
func letErrorsEnd() {
	defer func() { _ = recover() }() // Wait panics outside of bubbles
	synctest.Wait()
	time.Sleep(10 * time.Millisecond)
}

// pace makes callers wait until period has passed since the last call.
type pace struct {
	period time.Duration
	mu     sync.Mutex
	last   time.Time
}

func (p *pace) wait(context.Context, error, string, ...any) {
	p.mu.Lock()
	now := time.Now()
	passed := now.Sub(p.last)
	p.last = now
	p.mu.Unlock()
	if passed >= 0 {
		time.Sleep(p.period - passed)
	}
}
