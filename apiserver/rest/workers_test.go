package rest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func as(ctx context.Context, name string, groups ...string) context.Context {
	return request.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups})
}

// Each user has so many places for large writes, and so many more may wait. Others, and
// administrators, are not concerned.
func TestPlacesOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		mallory := as(ctx, "mallory")
		var leaves []func()
		for range perUser {
			leave, err := w.enter(mallory)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		entered := make(chan error)
		for range perUser * waitingPerPlace {
			go func() {
				leave, err := w.enter(mallory)
				entered <- err
				if err == nil {
					leave()
				}
			}()
		}
		synctest.Wait()
		if _, err := w.enter(mallory); !apierrors.IsTooManyRequests(err) {
			t.Errorf("one more: %v, want 429", err)
		}
		for _, other := range []context.Context{as(ctx, "ann"), as(ctx, "mallory", user.SystemPrivilegedGroup), ctx} {
			leave, err := w.enter(other)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		leaves[0]()
		if err := <-entered; err != nil {
			t.Errorf("the first that waited: %v", err)
		}
		for range perUser*waitingPerPlace - 1 {
			if err := <-entered; err != nil {
				t.Errorf("one that waited: %v", err)
			}
		}
		// All places are taken until the deadline.
		leave, err := w.enter(mallory)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.enter(mallory); !apierrors.IsTooManyRequests(err) || ctx.Err() == nil {
			t.Errorf("at the deadline: %v, want 429", err)
		}
		leave()
		for _, leave := range leaves[1:] {
			leave()
		}
		if len(w.users) != 0 {
			t.Errorf("users without work: %v", w.users)
		}
	})
}
