package startup

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func TestUntilParentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parent atomic.Int64
		parent.Store(42)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := untilChanged(ctx, func() int { return int(parent.Load()) })
		time.Sleep(time.Hour)
		require.NoErrorf(t, ended.Err(), "ended before the parent")
		parent.Store(1)
		time.Sleep(parentCheck)
		synctest.Wait()
		if ended.Err() == nil || ctx.Err() != nil {
			t.Error("runs after its parent")
		}
		started := untilChanged(ctx, func() int { return 1 })
		assert.Equalf(t, started, ctx, "process 1 counts as a parent that ended")
	})
}
