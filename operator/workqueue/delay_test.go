package workqueue

import (
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
)

// A trace shows how long a key waits and has waited.
func TestDelayAndWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPlain(Config[string, struct{}]{Aging: time.Second})
		q.AddAfter("a", struct{}{}, time.Minute)
		time.Sleep(20 * time.Second)
		assert.Equalf(t, q.Delay("a"), 40*time.Second, "a waits for")
		time.Sleep(43 * time.Second)
		assert.Equalf(t, q.Delay("a")+q.Delay("never added"), 0, "ready and absent keys wait for")
		item, err := q.Get(t.Context())
		if err != nil || item.Waited != 3*time.Second {
			t.Errorf("got %+v, %v", item, err)
		}
		q.Done(item)
	})
}
