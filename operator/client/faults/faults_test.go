package faults_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/client/faults"
	"kelson.dev/operator/internal/apitest"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func newClient(t *testing.T) *faults.Client {
	t.Helper()
	c, err := client.New(client.Config{REST: apitest.New().REST()})
	require.NoError(t, err)
	return faults.New(c)
}

// Rules select by verb, kind, name and subresource, apply in order, and can be limited to some
// calls.
func TestRules(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	once := c.On(faults.Call{Verb: faults.Create, Kind: "Pod", Name: "a*"}).Skip(1).Times(2).Return(faults.Conflict)
	status := c.On(faults.Call{Subresource: "status"}).Return(faults.Forbidden)
	lists := c.On(faults.Call{Verb: faults.List, Namespace: "default"}).Return(faults.As(context.DeadlineExceeded))
	none := c.On(faults.Call{Kind: "Secret"}).Return(faults.ServerError)
	var got []bool
	for _, name := range []string{"a1", "b1", "a2", "a3", "a4"} {
		err := c.Create(ctx, pod(name))
		if err != nil && !apierrors.IsConflict(err) {
			t.Errorf("create %s: %v", name, err)
		}
		got = append(got, err == nil)
	}
	assert.Slicef(t, got, []bool{true, true, false, false, true}, "creates")
	if err := c.Subresource("status").Update(ctx, pod("a1"), nil); !apierrors.IsForbidden(err) {
		t.Errorf("status: %v", err)
	}
	_, err := client.List[corev1.Pod](ctx, c, client.InNamespace("default"))
	assert.ErrorIsf(t, err, context.DeadlineExceeded, "list")
	pods, err := client.List[corev1.Pod](ctx, c)
	if err != nil || len(pods) != 3 {
		t.Errorf("%d pods, %v", len(pods), err)
	}
	assert.Slicef(t, []int{once.Hits(), status.Hits(), lists.Hits(), none.Hits()}, []int{2, 1, 1, 0}, "hits")
	if calls := c.Calls(); len(calls) != 8 ||
		calls[5] != (faults.Call{Verb: faults.Update, Kind: "Pod", Namespace: "default", Name: "a1",
			Subresource: "status"}) {
		t.Errorf("calls %+v", calls)
	}
	c.Reset()
	if err := c.Delete(ctx, pod("a1")); err != nil || len(c.Calls()) != 1 {
		t.Errorf("after Reset: %v, %d calls", err, len(c.Calls()))
	}
}

// A write whose response is lost was executed, and leaves the object unchanged.
func TestLostResponse(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	c.On(faults.Call{Verb: faults.Create}).After().Times(1).Return(faults.Cut)
	a := pod("a")
	if err := c.Create(ctx, a); err == nil || a.UID != "" {
		t.Errorf("error %v, uid %q", err, a.UID)
	}
	if err := c.Create(ctx, a); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the second create: %v", err)
	}
}

// A delay ends with the context.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		c.On(faults.Call{Kind: "Pod"}).Delay(time.Hour)
		begin := time.Now()
		if err := c.Create(t.Context(), pod("a")); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.Get(ctx, client.Key{Namespace: "default", Name: "a"}, pod(""))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
