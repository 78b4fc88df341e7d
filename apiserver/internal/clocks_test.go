package internal_test

import (
	"testing"
	"time"

	"kelson.dev/apiserver/internal/clocks"
)

func TestSet(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{0, time.Second, time.Hour, -time.Hour, 24 * 365 * time.Hour,
		-24 * 365 * time.Hour} {
		shifted := clocks.Set(now, by)
		if wall := shifted.UnixNano() - now.UnixNano(); wall != int64(by) || shifted.Sub(now) != 0 {
			t.Errorf("by %s: wall clock %s, monotonic %s", by, time.Duration(wall), shifted.Sub(now))
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Set accepted a time without a monotonic reading")
		}
	}()
	clocks.Set(now.Round(0), time.Hour)
}
