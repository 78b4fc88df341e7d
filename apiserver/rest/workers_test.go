package rest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/internal/turn"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func asUser(ctx context.Context, name string, groups ...string) context.Context {
	return request.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups})
}

// Each user has a limited number of places for large writes, and a limited queue. Other users and
// administrators are not affected.
func TestPlacesOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		mallory := asUser(ctx, "mallory")
		var leaves []func()
		for range perUser {
			work, leave, err := w.enter(mallory, false)
			require.NoError(t, err)
			turn.Pause(turn.Context(ctx, work)) // for a webhook
			leaves = append(leaves, leave)
		}
		entered := make(chan error)
		for range perUser * waitingPerPlace {
			go func() {
				_, leave, err := w.enter(mallory, false)
				entered <- err
				if err == nil {
					leave()
				}
			}()
		}
		synctest.Wait()
		if _, _, err := w.enter(mallory, false); !apierrors.IsTooManyRequests(err) {
			t.Errorf("one more: %v, want 429", err)
		}
		for _, other := range []context.Context{asUser(ctx, "ann"), asUser(ctx, "mallory", user.SystemPrivilegedGroup),
			ctx} {
			_, leave, err := w.enter(other, false)
			require.NoError(t, err)
			leave()
		}
		leaves[0]()
		assert.NoErrorf(t, <-entered, "the write that waited first")
		for range perUser*waitingPerPlace - 1 {
			assert.NoErrorf(t, <-entered, "a write that waited")
		}
		// All places are taken until the deadline.
		_, leave, err := w.enter(mallory, false)
		require.NoError(t, err)
		if _, _, err := w.enter(mallory, false); !apierrors.IsTooManyRequests(err) || ctx.Err() == nil {
			t.Errorf("at the deadline: %v, want 429", err)
		}
		leave()
		for _, leave := range leaves[1:] {
			leave()
		}
		assert.Equalf(t, len(w.users), 0, "users without work are still counted: %v", w.users)
	})
}

// The large writes of one user do not use all processors: when turn.Processors of them are running,
// further ones wait until one ends or waits for something else.
func TestTurnsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		mallory := asUser(ctx, "mallory")
		var computing []*turn.Turn
		for range turn.Processors {
			work, leave, err := w.enter(mallory, false)
			require.NoError(t, err)
			defer leave()
			computing = append(computing, work)
		}
		entered := make(chan error)
		go func() {
			_, leave, err := w.enter(mallory, false)
			entered <- err
			if err == nil {
				leave()
			}
		}()
		synctest.Wait()
		select {
		case err := <-entered:
			t.Fatalf("more writes than turn.Processors are computed: %v", err)
		default:
		}
		if _, leave, err := w.enter(asUser(ctx, "ann"), false); err != nil {
			t.Errorf("a write of another user: %v", err)
		} else {
			leave()
		}
		// Work that may wait for a conversion webhook has a place, and no turn.
		if work, leave, err := w.enter(mallory, true); work != nil || err != nil {
			t.Errorf("work that waits: turn %v, %v", work, err)
		} else {
			leave()
		}
		turn.Pause(turn.Context(ctx, computing[0]))
		assert.NoErrorf(t, <-entered, "a write after another one paused")
	})
}
