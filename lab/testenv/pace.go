package testenv

import (
	"context"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Kubernetes' libraries report errors that nobody gets, at most one in a millisecond: whoever reports sleeps for the rest of it. They
// reckon from the time of the last error in the process, and a bubble's clock is a quarter of a century behind: the first error in it would
// block its goroutine for so long. Here the same is done by a pace that copes with clocks that differ.
//
// In init, since others may read the handlers at any later time.
func init() {
	for i := range utilruntime.ErrorHandlers {
		if i == 1 {
			utilruntime.ErrorHandlers[i] = (&pace{period: time.Millisecond}).wait
		}
	}
}

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
