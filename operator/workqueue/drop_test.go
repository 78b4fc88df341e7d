package workqueue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/workqueue"
)

// Keys are removed from every state, and start over when they are added again.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &workqueue.Exponential[string]{Base: time.Minute, Max: time.Hour}
		q := workqueue.New(workqueue.Config[string, string]{Limiter: limiter})
		defer q.ShutDown()
		get := func() workqueue.Item[string, string] {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			item, err := q.Get(ctx)
			require.NoError(t, err)
			return item
		}
		hasPrefix := func(prefix string) func(string) bool {
			return func(key string) bool { return strings.HasPrefix(key, prefix) }
		}

		q.Add("east/running", "")
		q.Add("east/again", "")
		running, again := get(), get()
		q.Add("east/again", "while it runs")
		q.Add("east/rests", "")
		q.Done(get())
		q.Add("east/ready", "")
		q.AddAfter("east/later", "", time.Hour)
		q.AddRateLimited("east/failed", "")
		q.AddRateLimited("east/failed", "")
		q.AddRateLimited("west/failed", "")
		q.AddAfter("west/later", "", 2*time.Hour)
		q.Add("west/ready", "")
		n := q.Drop(hasPrefix("east/"))
		assert.Equalf(t, n, 4, "were dropped, want 4: ready, delayed, failed, and added again")
		if s := q.Stats(); s.Ready != 1 || s.Waiting != 2 || s.Running != 2 {
			t.Errorf("%+v is left", s)
		}
		if limiter.NumRequeues("east/failed") != 0 || limiter.NumRequeues("west/failed") != 1 {
			t.Error("the limiter has reset the wrong keys")
		}
		assert.Equalf(t, q.Drop(hasPrefix("east/")), 0, "were dropped the second time")

		// A running key is not given to another worker before Done.
		q.Add("east/running", "readded")
		if item := get(); item.Key != "west/ready" {
			t.Errorf("got %q, want the key that no worker has", item.Key)
		} else {
			q.Done(item)
		}
		q.Done(again)
		q.Done(running)
		if item := get(); item.Key != "east/running" || item.Payload != "readded" {
			t.Errorf("got %q, %q", item.Key, item.Payload)
		} else {
			q.Done(item)
		}

		// The timer is set for the remaining keys.
		begin := time.Now()
		for _, want := range []string{"west/failed", "west/later"} {
			item, err := q.Get(t.Context())
			if err != nil || item.Key != want {
				t.Errorf("got %q, %v after %v, want %q", item.Key, err, time.Since(begin), want)
			}
			q.Done(item)
		}
		q.Add("east/later", "")
		item := get()
		assert.Equal(t, item.Key, "east/later")
	})
}

// A draining queue is empty after its last keys were dropped.
func TestDropEndsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Config[string, string]{})
		q.Add("a", "")
		drained := make(chan error, 1)
		go func() { drained <- q.ShutDownWithDrain(t.Context()) }()
		synctest.Wait()
		q.Drop(func(string) bool { return true })
		assert.NoError(t, <-drained)
	})
}
