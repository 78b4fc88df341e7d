package kubernetes_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/expiry"
)

func put(t *testing.T, s *store.Store, name string, expect uint64) uint64 {
	t.Helper()
	data := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","creationTimestamp":%q}}`, name,
		time.Now().UTC().Format(time.RFC3339))
	objs, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "events", Namespace: "default", Name: name},
		Data: []byte(data), Expect: expect})
	require.NoError(t, err)
	return objs[0].Revision
}

// Objects are deleted an hour after their last write, or after the start for older ones.
func TestObjectsExpireAfterTheirLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.New(t, store.Config{})
		put(t, s, "before-start", 0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- expiry.New(s, "events", time.Hour).Run(ctx) }()

		time.Sleep(10 * time.Minute)
		revision := put(t, s, "written-twice", 0)
		put(t, s, "once", 0)
		time.Sleep(30 * time.Minute)
		put(t, s, "written-twice", revision)

		left := func() int {
			synctest.Wait()
			return s.Snapshot().Count("events", "")
		}
		for _, step := range []struct {
			wait time.Duration
			left int
		}{{19 * time.Minute, 3}, {2 * time.Minute, 2}, {10 * time.Minute, 1}, {28 * time.Minute, 1},
			{2 * time.Minute, 0}} {
			time.Sleep(step.wait)
			if got := left(); got != step.left {
				t.Fatalf("%v: %d left, want %d", time.Now().Format(time.TimeOnly), got, step.left)
			}
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

// Objects that were written before the clock was set back, and objects that are written after them,
// expire at most one lifetime after the start.
func TestObjectsOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.New(t, store.Config{})
		future := fmt.Sprintf(`{"metadata":{"name":"future","namespace":"default","creationTimestamp":%q}}`,
			time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339))
		_, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "events", Namespace: "default",
			Name: "future"}, Data: []byte(future)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- expiry.New(s, "events", time.Hour).Run(ctx) }()
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		put(t, s, "later", 0)
		for _, step := range []struct {
			wait time.Duration
			left int
		}{{49 * time.Minute, 2}, {2 * time.Minute, 1}, {10 * time.Minute, 0}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if got := s.Snapshot().Count("events", ""); got != step.left {
				t.Errorf("%v: %d left, want %d", time.Now().Format(time.TimeOnly), got, step.left)
			}
		}
		cancel()
		require.NoError(t, <-ended)
	})
}
