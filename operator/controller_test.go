package operator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.Key{Namespace: "default", Name: name}}
}

// runs is a running controller, with its log and records.
type runs struct {
	*controller.Controller
	mu      sync.Mutex
	records []trace.Record
	logged  bytes.Buffer
	cancel  func()
	ended   chan error
}

func startRuns(t *testing.T, cfg controller.Config) *runs {
	t.Helper()
	r := &runs{ended: make(chan error, 1)}
	cfg.Name = "test"
	cfg.Tracer = trace.New(trace.Config{Sink: trace.Func(func(rec trace.Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records = append(r.records, rec)
	})})
	cfg.Log = slog.New(slog.NewTextHandler(&r.logged, nil))
	c, err := controller.New(cfg)
	must(t, err)
	r.Controller = c
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- c.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

func (r *runs) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	assert.NoError(t, <-r.ended)
}

func (r *runs) add(name string) {
	r.Queue().Add(named(name), trace.Because(trace.Cause{Event: trace.Other}))
}

// The result or error of a reconcile determines when the next one runs, with which cause, and what
// is logged.
func TestOutcomes(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("the object has been modified"))
	tests := []struct {
		name   string
		first  func() (reconcile.Result, error)
		want   []string // times and causes of the reconciles
		logged string   // "" for nothing
	}{
		{"success", func() (reconcile.Result, error) { return reconcile.Result{}, nil }, []string{"0s other"}, ""},
		{"requeue", func() (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}, []string{"0s other", "1h0m0s after"}, ""},
		{"requeue in the past", func() (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: -time.Hour}, nil
		}, []string{"0s other", "1ms after"}, ""},
		{"error", func() (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("broken")
		}, []string{"0s other", "5ms retry"}, "reconcile failed"},
		{"error and requeue", func() (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Hour}, errors.New("broken")
		},
			[]string{"0s other", "5ms retry"}, "reconcile failed"},
		{"conflict", func() (reconcile.Result, error) {
			return reconcile.Result{}, fmt.Errorf("write: %w", conflict)
		}, []string{"0s other", "5ms retry"}, ""},
		{"conflict and error", func() (reconcile.Result, error) {
			return reconcile.Result{}, errors.Join(errors.New("broken"), conflict)
		}, []string{"0s other", "5ms retry"}, "level=ERROR msg=\"reconcile failed\""},
		{"terminal", func() (reconcile.Result, error) {
			return reconcile.Result{}, reconcile.Terminal(errors.New("broken"))
		}, []string{"0s other"}, "not retrying"},
		{"invalid", func() (reconcile.Result, error) {
			return reconcile.Result{}, reconcile.Invalid("spec", errors.New("broken"))
		}, []string{"0s other"}, "not retrying"},
		{"panic", func() (reconcile.Result, error) {
			panic("test panic")
		}, []string{"0s other", "5ms retry"}, "panic: test panic"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, n := time.Now(), 0
				r := startRuns(t, controller.Config{Reconciler: reconcile.Func(func(context.Context,
					reconcile.Request) (reconcile.Result, error) {
					if n++; n == 1 {
						return tt.first()
					}
					return reconcile.Result{}, nil
				})})
				r.add("a")
				time.Sleep(24 * time.Hour)
				r.stop(t)
				var got []string
				for _, rec := range r.records {
					got = append(got, fmt.Sprint(rec.Time.Sub(begin), " ", rec.Causes.All()[0].Event))
				}
				assert.Slice(t, got, tt.want)
				if log := r.logged.String(); tt.logged == "" && log != "" || !strings.Contains(log, tt.logged) {
					t.Errorf("it logged %q, want %q", log, tt.logged)
				}
				assert.Equalf(t, r.Queue().NumRequeues(named("a")), 0, "requeues were not reset")
			})
		})
	}
}

// The delay after errors doubles up to its maximum.
func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRuns(t, controller.Config{
			Limiter: &workqueue.Exponential[reconcile.Request]{Base: time.Second, Max: 4 * time.Second},
			Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, errors.New("broken")
			})})
		begin := time.Now()
		r.add("a")
		time.Sleep(12 * time.Second)
		r.stop(t)
		var got []time.Duration
		for _, rec := range r.records {
			got = append(got, rec.Time.Sub(begin)/time.Second)
		}
		assert.Slicef(t, got, []time.Duration{0, 1, 3, 7, 11}, "at")
	})
}

// At most the configured number of reconciles run at once, and never two of one object.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		active, most := map[string]int{}, 0
		r := startRuns(t, controller.Config{Concurrency: 3, GracePeriod: time.Minute,
			Reconciler: reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
				mu.Lock()
				active[req.Name]++
				if active[req.Name] > 1 {
					t.Errorf("%s is reconciled twice at the same time", req.Name)
				}
				n := 0
				for _, a := range active {
					n += a
				}
				most = max(most, n)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				active[req.Name]--
				mu.Unlock()
				return reconcile.Result{}, nil
			})})
		for i := range 50 {
			r.add(fmt.Sprint("object-", i%5))
			time.Sleep(100 * time.Millisecond)
		}
		r.stop(t)
		assert.Equalf(t, most, 3, "at once")
	})
}

// The context of a reconcile ends after the timeout, with a cause that says so.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		r := startRuns(t, controller.Config{ReconcileTimeout: time.Second,
			Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return reconcile.Result{}, reconcile.Terminal(ctx.Err())
			})})
		r.add("a")
		time.Sleep(time.Minute)
		r.stop(t)
		if len(r.records) != 1 || r.records[0].Duration != time.Second ||
			!strings.Contains(cause.Error(), "longer than 1s") {
			t.Errorf("got %+v, %v", r.records, cause)
		}
	})
}

// After a stop, running reconciles may end within the grace period, and no others start. Run
// returns an error if one had to be canceled.
func TestGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []time.Duration
		var mu sync.Mutex
		work := map[string]time.Duration{"quick": 2 * time.Second, "slow": time.Hour}
		r := startRuns(t, controller.Config{Concurrency: 2, GracePeriod: 10 * time.Second,
			Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				begin := time.Now()
				var err error
				select {
				case <-time.After(work[req.Name]):
				case <-ctx.Done():
					err = ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, time.Since(begin))
				return reconcile.Result{}, err
			})})
		r.add("quick")
		r.add("slow")
		synctest.Wait()
		r.add("third") // never started
		r.cancel()
		assert.ErrorIsf(t, <-r.ended, leader.ErrStillWorking, "after a canceled reconcile, Run")
		assert.Slicef(t, ends, []time.Duration{2 * time.Second, 10 * time.Second}, "they ended after")
	})
}

// A source that fails, does not synchronize or blocks in Start ends the controller with an error. A
// stop ends it without one.
func TestSourcesThatFail(t *testing.T) {
	never := controller.SourceFunc(func(context.Context, controller.Queue) (<-chan struct{}, error) {
		return make(chan struct{}), nil
	})
	broken := controller.SourceFunc(func(context.Context, controller.Queue) (<-chan struct{}, error) {
		return nil, errors.New("broken")
	})
	blocks := controller.SourceFunc(func(ctx context.Context, _ controller.Queue) (<-chan struct{}, error) {
		<-ctx.Done()
		return nil, nil
	})
	for want, source := range map[string]controller.Source{
		"not synced within 2m0s": never, "broken": broken,
		"did not start within 2m0s: its method Start must not block": blocks,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := startRuns(t, controller.Config{Reconciler: reconcile.Func(nil), Sources: []controller.Source{source}})
			assert.ErrorContains(t, <-r.ended, want)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		for _, source := range []controller.Source{never, blocks} {
			r := startRuns(t, controller.Config{Reconciler: reconcile.Func(nil), Sources: []controller.Source{source}})
			synctest.Wait()
			r.stop(t)
		}
	})
}

// Each request that is sent to the channel is reconciled.
func TestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan reconcile.Request)
		r := startRuns(t, controller.Config{Sources: []controller.Source{controller.Channel(events)},
			Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			})})
		events <- named("a")
		synctest.Wait()
		close(events)
		r.stop(t)
		if len(r.records) != 1 || r.records[0].Request != named("a") {
			t.Errorf("got %+v", r.records)
		}
	})
}

// A controller without a reconciler is an error.
func TestConfigErrors(t *testing.T) {
	if _, err := controller.New(controller.Config{Name: "a"}); err == nil {
		t.Error("a controller without a reconciler")
	}
}
