package store_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// A writer waits for the readers at the head of the log, up to a limit, and for no other readers.
func TestAwaitDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.New(t, store.Config{})
		n := 0
		write := func() uint64 {
			n++
			op := store.Op{Key: store.Key{Resource: "pods", Name: fmt.Sprint("p", n)}, Data: []byte(`{"metadata":{}}`)}
			objs, err := s.Commit(t.Context(), op)
			require.NoError(t, err)
			return objs[0].Revision
		}
		waited := func() time.Duration {
			revision := write()
			begin := time.Now()
			s.AwaitDelivery(t.Context(), "pods", revision)
			return time.Since(begin)
		}
		if d := waited(); d != 0 {
			t.Errorf("waited %s for no reader", d)
		}
		behind, err := s.Watch("pods", 1)
		require.NoError(t, err)
		behind.Delivered()
		if d := waited(); d != 0 {
			t.Errorf("waited %s for a reader that was behind", d)
		}

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		slow := 3 * time.Millisecond
		for range 3 { // readers that take the duration slow for each event
			c, err := s.Watch("pods", s.Snapshot().Revision())
			require.NoError(t, err)
			c.Delivered()
			go func() {
				defer c.Leave()
				for {
					events, _, err := c.Next()
					if err != nil {
						return
					}
					time.Sleep(slow * time.Duration(len(events)))
					c.Delivered()
					if len(events) > 0 {
						continue
					}
					select {
					case <-c.Ready():
					case <-ctx.Done():
						return
					}
				}
			}()
		}
		if d := waited(); d != slow {
			t.Errorf("waited %s for readers that need %s", d, slow)
		}
		write()
		time.Sleep(slow / 2) // the readers deliver an older event
		if d := waited(); d != slow/2+slow {
			t.Errorf("waited %s for readers that are busy with the event before", d)
		}

		stuck, err := s.Watch("pods", s.Snapshot().Revision())
		require.NoError(t, err)
		stuck.Delivered()
		if d := waited(); d < slow || d > 50*time.Millisecond {
			t.Errorf("waited %s for a reader that does not read", d)
		}
		if d := waited(); d != slow {
			t.Errorf("waited %s for readers that need %s, and one that timed out", d, slow)
		}
		for range 2 {
			_, _, err = stuck.Next()
			require.NoError(t, err)
			stuck.Delivered()
		}
		if d := waited(); d == slow {
			t.Error("the writer did not wait for a reader that is at the head again")
		}
		for range 2 {
			_, _, _ = stuck.Next()
			stuck.Delivered()
		}
		if d := waited(); d != slow {
			t.Errorf("waited %s again immediately for a reader after two timeouts", d)
		}
		revision := write()
		short, end := context.WithTimeout(t.Context(), time.Millisecond)
		defer end()
		begin := time.Now()
		s.AwaitDelivery(short, "pods", revision)
		if d := time.Since(begin); d != time.Millisecond {
			t.Errorf("waited %s although the context ended", d)
		}
		cancel()
		time.Sleep(time.Second)
		if d := waited(); d != 0 {
			t.Errorf("waited %s for readers that have left", d)
		}
	})
}
