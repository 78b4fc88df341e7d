package startup

import (
	"context"
	"os"
	"time"
)

// parentCheck is how often a server checks that its parent still runs. No system call waits for the
// end of a parent on all systems.
const parentCheck = 250 * time.Millisecond

// UntilParentEnds returns a context that ends when the process that started this one ends, so that
// the servers of a killed test end too. The process with ID 1 counts as running.
func UntilParentEnds(ctx context.Context) context.Context {
	return untilChanged(ctx, os.Getppid)
}

func untilChanged(ctx context.Context, parent func() int) context.Context {
	first := parent()
	if first == 1 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		ticker := time.NewTicker(parentCheck)
		defer ticker.Stop()
		for parent() == first {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return ctx
}
