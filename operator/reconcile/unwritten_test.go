package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// A terminal error is retried until the status of that reconcile is written.
func TestTerminalWithStatusThatCannotBeWritten(t *testing.T) {
	for name, do := range map[string]error{
		"terminal":          reconcile.Terminal(errBroken),
		"invalid":           reconcile.Invalid("spec", errBroken),
		"wrapped terminal":  fmt.Errorf("order: %w", reconcile.Terminal(errBroken)),
		"terminal conflict": reconcile.Terminal(apierrors.NewConflict(schema.GroupResource{}, "x", errBroken)),
	} {
		for _, code := range []int{http.StatusInternalServerError, http.StatusConflict} {
			t.Run(fmt.Sprint(name, code), func(t *testing.T) {
				f := newFixture(t)
				fails := true
				f.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
					if fails && strings.HasSuffix(path, "/status") {
						return code, map[int]metav1.StatusReason{500: metav1.StatusReasonInternalError,
							409: metav1.StatusReasonConflict}[code]
					}
					return 0, ""
				}})
				r := step(func(_ context.Context, b *budget) (reconcile.Result, error) {
					b.Status.CurrentHealthy = 1
					return reconcile.Result{}, do
				})
				_, err := f.run(t, r)
				if reconcile.IsTerminal(err) {
					t.Errorf("%v is not retried, and the status is not written", err)
				}
				fails = false
				_, err = f.run(t, r)
				if !reconcile.IsTerminal(err) {
					t.Errorf("got %v", err)
				}
				assert.Equalf(t, f.budget(t).Status.CurrentHealthy, 1, "the status")
			})
		}
	}
}

var errBroken = errors.New("broken")

// A conflict of the status write does not turn the reconciler's own error into a conflict, which
// would be logged for debugging only.
func TestErrorWithStatusConflict(t *testing.T) {
	f := newFixture(t)
	f.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
		if strings.HasSuffix(path, "/status") {
			return http.StatusConflict, metav1.StatusReasonConflict
		}
		return 0, ""
	}})
	_, err := f.run(t, step(func(_ context.Context, b *budget) (reconcile.Result, error) {
		b.Status.CurrentHealthy = 1
		return reconcile.Result{}, errBroken
	}))
	if reconcile.IsConflict(err) || apierrors.IsConflict(err) {
		t.Errorf("%v counts as a conflict", err)
	}
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "write status") {
		t.Errorf("got %v", err)
	}
}

func TestIsConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "x", errBroken)
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                        {nil, false},
		"another error":              {errBroken, false},
		"a conflict":                 {conflict, true},
		"wrapped":                    {fmt.Errorf("write: %w", conflict), true},
		"two conflicts":              {errors.Join(conflict, fmt.Errorf("write: %w", conflict)), true},
		"joined with another error":  {errors.Join(errBroken, conflict), false},
		"joined with a later error":  {errors.Join(conflict, errBroken), false},
		"wrapped with another error": {fmt.Errorf("%w: %w", errBroken, conflict), false},
		"nested with another error": {fmt.Errorf("a: %w", errors.Join(conflict, fmt.Errorf("b: %w", errBroken))),
			false},
		"terminal": {reconcile.Terminal(conflict), true},
	} {
		assert.Equalf(t, reconcile.IsConflict(tt.err), tt.want, "%s", name)
	}
}

// If the status write after a terminal error gets one response 500, the new status is written
// later.
func TestTerminalStatusStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		failures := 1
		f.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
			if strings.HasSuffix(path, "/status") && failures > 0 {
				failures--
				return http.StatusInternalServerError, metav1.StatusReasonInternalError
			}
			return 0, ""
		}})
		adapted, err := reconcile.For[budget](step(func(_ context.Context, b *budget) (reconcile.Result, error) {
			b.Status.CurrentHealthy = 1
			return reconcile.Result{}, reconcile.Terminal(errBroken)
		}), reconcile.TypedConfig{Client: f.client})
		must(t, err)
		c, err := controller.New(controller.Config{Name: "budgets", Reconciler: adapted,
			Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		stop := require.Running(t, c.Run)
		c.Queue().Add(request, trace.Because(trace.Cause{Event: trace.Other}))
		time.Sleep(24 * time.Hour)
		stop()
		if n := f.budget(t).Status.CurrentHealthy; n != 1 {
			t.Errorf("the status is %d after a day", n)
		}
		if n := f.statusWrites(); n != 1 || failures != 0 { // refused requests are not counted
			t.Errorf("%d writes of the status", n)
		}
	})
}
