package workqueue

import (
	"testing"
	"testing/synctest"
	"time"
)

// A trace shows how long a key waits and has waited.
func TestDelayAndWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPlain(Config[string, struct{}]{Aging: time.Second})
		q.AddAfter("a", struct{}{}, time.Minute)
		time.Sleep(20 * time.Second)
		if d := q.Delay("a"); d != 40*time.Second {
			t.Errorf("a waits for %v", d)
		}
		time.Sleep(43 * time.Second)
		if d := q.Delay("a") + q.Delay("never added"); d != 0 {
			t.Errorf("ready and absent keys wait for %v", d)
		}
		item, err := q.Get(t.Context())
		if err != nil || item.Waited != 3*time.Second {
			t.Errorf("got %+v, %v", item, err)
		}
		q.Done(item)
	})
}
