package filters

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
)

// Waiting requests get shares in order. The limit of a user delays only that user's requests, and
// small requests pass large ones.
func TestBudgetOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unit = 2 * small
		b := &budget{}
		b.limit(Bodies{Total: 10 * unit, PerUser: 4 * unit})
		var mu sync.Mutex // guards served
		var served []string
		take := func(user string, need int64) {
			go func() {
				ok := b.take(t.Context(), user, need, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprintf("%s%d%v", user, need/small, ok))
			}()
			synctest.Wait()
		}
		take("a", 6*unit) // its only request may exceed the limit
		take("a", unit)   // waits for the first
		take("b", 4*unit)
		take("b", small) // waits for its user
		take("c", 2*unit)
		take("d", unit) // waits behind c
		take("e", 0)
		check := func(want ...string) {
			t.Helper()
			if synctest.Wait(); !slices.Equal(served, want) {
				t.Errorf("served %v, want %v", served, want)
			}
			served = nil
		}
		check("a12true", "b8true", "e0true")
		b.give("b", 4*unit)
		b.give("e", 0)
		synctest.Wait()
		slices.Sort(served)
		check("b1true", "c4true", "d2true")
		b.give("a", 6*unit)
		check("a2true")
		b.give("a", unit)
		b.give("b", small)
		b.give("c", 2*unit)
		b.give("d", unit)
		if b.used != 0 || len(b.users) != 0 || len(b.queued) != 0 {
			t.Errorf("left: %d, %v, %v", b.used, b.users, b.queued)
		}
		take("a", 4*unit)
		take("a", unit)
		time.Sleep(time.Minute)
		check("a8true", "a2false")
		assert.Equalf(t, len(b.queued), 0, "the wait did not end")
	})
}
