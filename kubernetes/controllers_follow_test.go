package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/follow"
)

func open(t *testing.T, cfg store.Config) *store.Store {
	t.Helper()
	st, err := store.Open(cfg)
	require.NoError(t, err)
	return st
}

func putOfFollow(t *testing.T, st *store.Store, resource, name string) {
	t.Helper()
	data := fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)
	_, err := st.Commit(t.Context(), store.Op{Key: store.Key{Resource: resource, Name: name}, Data: data,
		Expect: store.AnyRevision})
	require.NoError(t, err)
}

func keys(obj *store.Object, add func(string)) { add(obj.Key.Resource + "/" + obj.Key.Name) }

// Run calls Sync for existing and for changed objects, again after errors, and again after the
// requested time. It ends when the store is closed.
func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, store.Config{})
		putOfFollow(t, st, "apples", "a")
		var mu sync.Mutex // protects seen, because retries run concurrently with after
		var seen []string
		failures := 2
		ended := make(chan error)
		go func() {
			ended <- follow.Run(t.Context(), follow.Config[string]{
				Store: st, Resources: []string{"apples", "pears"}, Keys: keys,
				Sync: func(_ context.Context, key string) (time.Duration, error) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, key)
					switch {
					case key == "pears/fails" && failures > 0:
						failures--
						return 0, errors.New("not yet")
					case key == "pears/later":
						return time.Hour, nil
					}
					return 0, nil
				},
			})
		}()
		after := func(what string, d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			assert.Equalf(t, strings.Join(seen, " "), want, "%s: synced", what)
			seen = nil
		}
		after("existing objects", 0, "apples/a")
		putOfFollow(t, st, "apples", "a")
		putOfFollow(t, st, "plums", "p")
		after("what comes", 0, "apples/a")
		putOfFollow(t, st, "pears", "fails")
		after("after errors", time.Minute, "pears/fails pears/fails pears/fails")
		putOfFollow(t, st, "pears", "later")
		after("after a time", 30*time.Minute, "pears/later")
		after("after a time", 31*time.Minute, "pears/later")
		st.Close()
		assert.NoErrorf(t, <-ended, "Run returns an error when the store is closed")
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, store.Config{})
		defer st.Close()
		putOfFollow(t, st, "apples", "a")
		ctx, cancel := context.WithCancel(t.Context())
		working := make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- follow.Run(ctx, follow.Config[string]{
				Store: st, Resources: []string{"apples"}, Keys: keys,
				Sync: func(ctx context.Context, _ string) (time.Duration, error) {
					close(working)
					<-ctx.Done() // Run waits for a sync that is running
					return 0, ctx.Err()
				},
			})
		}()
		<-working
		cancel()
		assert.NoErrorf(t, <-ended, "Run returns an error when its context ends")
	})
}

// A watch that falls behind starts over with the current state.
func TestFallingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, store.Config{Retain: 4})
		defer st.Close()
		seen := map[string]bool{}
		first := true
		go func() {
			_ = follow.Run(t.Context(), follow.Config[string]{
				Store: st, Resources: []string{"apples"},
				Keys: func(obj *store.Object, add func(string)) {
					if first { // write more events than the log retains
						first = false
						for i := range 50 {
							putOfFollow(t, st, "apples", fmt.Sprint(i))
						}
					}
					keys(obj, add)
				},
				Sync: func(_ context.Context, key string) (time.Duration, error) { seen[key] = true; return 0, nil },
			})
		}()
		putOfFollow(t, st, "apples", "a")
		synctest.Wait()
		assert.Equalf(t, len(seen), 51, "keys were synced")
	})
}
