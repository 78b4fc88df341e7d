package testenv

import (
	"context"
	"sync"
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
