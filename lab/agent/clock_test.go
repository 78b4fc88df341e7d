package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/require"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		c, err := NewClock()
		require.NoError(t, err)
		defer c.Stop()
		for _, d := range []time.Duration{time.Hour, time.Minute, time.Second} {
			go time.Sleep(d)
			synctest.Wait()
			if next, ok := c.Next(); !ok || time.Until(next) != d {
				t.Errorf("next after %v: %v", d, time.Until(next))
			}
		}
		time.Sleep(2 * time.Second)
		if next, ok := c.Next(); !ok || time.Until(next) != 58*time.Second {
			t.Errorf("next: %v, want 58s", time.Until(next))
		}
		time.Sleep(time.Hour) // until all have ended
	})
}
