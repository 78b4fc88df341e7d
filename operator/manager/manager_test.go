package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

func newManager(t *testing.T, cfg manager.Config) (*manager.Manager, *apitest.Server) {
	t.Helper()
	s := apitest.New()
	cfg.REST = s.REST()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	m, err := manager.New(cfg)
	must(t, err)
	return m, s
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// After a stop, the last reconcile can read, write and record Events until it ends.
func TestPartsRunUntilLastReconcileEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newManager(t, manager.Config{})
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		ctx, cancel := context.WithCancel(t.Context())
		add := func(name string) {
			m.Add(manager.Func(func(ctx context.Context) error {
				note("start " + name)
				<-ctx.Done()
				note("stop " + name)
				return ctx.Err()
			}))
		}
		add("runnable")
		err := m.AddController(controller.Config{
			Name: "test",
			Sources: []controller.Source{
				&controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}},
			},
			Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				cancel()
				time.Sleep(time.Second)
				cm, err := client.Get[corev1.ConfigMap](ctx, m.Client(), req.NamespacedName)
				if err != nil {
					t.Errorf("read at the end: %v", err)
					return reconcile.Result{}, nil
				}
				cm.Data = map[string]string{"a": "b"}
				assert.NoErrorf(t, m.Client().Update(ctx, cm), "write at the end")
				m.Recorder("test").Event(cm, "Normal", "Last", "at the end")
				note("reconciled")
				return reconcile.Result{}, nil
			}),
		})
		must(t, err)
		must(t, m.LiveClient().Create(ctx, configMap("a")))
		must(t, m.Run(ctx))
		assert.Slice(t, order, []string{"start runnable", "stop runnable", "reconciled"})
		assert.Lenf(t, s.Objects("events"), 1, "the last event is missing")
		if err := m.Run(t.Context()); err == nil {
			t.Error("it ran twice")
		}
	})
}

// The failure of one part stops all others, and Run returns all errors. A part that returns nil
// stops nothing.
func TestFailureStopsAllParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newManager(t, manager.Config{})
		stopped := false
		m.Add(manager.Func(func(ctx context.Context) error {
			<-ctx.Done()
			stopped = true
			return errors.New("not flushed")
		}))
		m.Add(manager.Func(func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", ctx.Err()) // not an error
		}))
		m.Add(manager.Func(func(context.Context) error {
			m.Add(manager.Func(func(context.Context) error { // added while it runs
				time.Sleep(time.Minute)
				return errors.New("broken")
			}))
			return nil // ends nothing
		}))
		begin := time.Now()
		if err := m.Run(t.Context()); err == nil || err.Error() != "broken\nnot flushed" || !stopped ||
			time.Since(begin) != time.Minute {
			t.Errorf("got %v after %v, stopped %v", err, time.Since(begin), stopped)
		}
	})
}

// Run returns an error soon after the grace period although a part does not end.
func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newManager(t, manager.Config{GracePeriod: 10 * time.Second})
		var stuck sync.WaitGroup
		stuck.Add(1)
		m.Add(manager.Func(func(context.Context) error { stuck.Wait(); return nil }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := m.Run(ctx)
		if err == nil || !strings.Contains(err.Error(), "stop: controllers: some work did not stop in time") ||
			time.Since(begin) > 20*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		stuck.Done()
	})
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	body, err := io.ReadAll(w.Result().Body)
	must(t, err)
	return w.Code, string(body)
}

// The readiness probe fails until the informers are synchronized. The liveness probe follows the
// added checks.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newManager(t, manager.Config{})
		var health error
		m.AddHealthCheck("heart", func(context.Context) error { return health })
		var down atomic.Bool
		down.Store(true)
		s.SetFaults(apitest.Faults{Fail: func(string, string) (int, metav1.StatusReason) {
			if down.Load() {
				return http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
			}
			return 0, ""
		}})
		must(t, m.AddController(controller.Config{Name: "test", Reconciler: reconcile.Func(nil),
			Sources: []controller.Source{&controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}}}}))
		check := func(path string, code int, body string) {
			t.Helper()
			if c, b := get(t, m.HealthHandler(), path); c != code || b != body {
				t.Errorf("%s answers %d %q, want %d %q", path, c, b, code, body)
			}
		}
		stop := require.Running(t, m.Run)
		synctest.Wait()
		check("/healthz", 200, "ok")
		if code, body := get(t, m.HealthHandler(), "/readyz"); code != 500 ||
			!strings.Contains(body, "[-]informers: ConfigMap: not synced: ") {
			t.Errorf("/readyz answers %d %q", code, body)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		check("/readyz", 200, "ok")
		check("/readyz?verbose", 200, "[+]informers ok\n")
		health = errors.New("stopped")
		check("/healthz", 500, "[-]heart: stopped\n")
		stop()
	})
}

// The metrics count results, panics, timeouts and retries of a controller under the names of
// controller-runtime.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newManager(t, manager.Config{})
		n := 0
		must(t, m.AddController(controller.Config{
			Name: "test", Concurrency: 2, ReconcileTimeout: time.Second,
			Sources: []controller.Source{&controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}}},
			Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				if n++; n == 1 {
					panic("test panic")
				}
				<-ctx.Done()
				return reconcile.Result{}, nil
			}),
		}))
		stop := require.Running(t, m.Run)
		must(t, m.LiveClient().Create(t.Context(), configMap("a")))
		time.Sleep(time.Minute)
		synctest.Wait()
		_, body := get(t, m.MetricsHandler(), "/metrics")
		for _, want := range []string{
			`controller_runtime_reconcile_total{controller="test",result="success"} 1`,
			`controller_runtime_reconcile_total{controller="test",result="error"} 1`,
			`controller_runtime_reconcile_panics_total{controller="test"} 1`,
			`controller_runtime_max_concurrent_reconciles{controller="test"} 2`,
			`controller_runtime_reconcile_time_seconds_count{controller="test"} 2`,
			`workqueue_adds_total{controller="test",name="test"} 2`,
			`workqueue_retries_total{controller="test",name="test"} 1`,
			`controller_runtime_reconcile_total{controller="test",result="requeue_after"} 0`,
			`controller_runtime_reconcile_timeouts_total{controller="test"} 1`,
			`workqueue_depth{controller="test",name="test",priority="0"} 0`,
			`workqueue_unfinished_work_seconds{controller="test",name="test"} 0`,
			`go_goroutines`,
		} {
			if !strings.Contains(body, want) {
				t.Errorf("no %s", want)
			}
		}
		stop()
	})
}

// An invalid address of the probes is an error of Run.
func TestServers(t *testing.T) {
	m, _ := newManager(t, manager.Config{MetricsAddress: "127.0.0.1:0", HealthAddress: "not an address"})
	assert.ErrorContains(t, m.Run(t.Context()), "serve health probes")
}

var must = require.NoError

// The name of a controller is unique in its manager. Other managers of the process can have a
// controller with that name.
func TestControllerNames(t *testing.T) {
	for range 2 {
		m, _ := newManager(t, manager.Config{})
		must(t, m.AddController(controller.Config{Name: "a", Reconciler: reconcile.Func(nil)}))
		must(t, m.AddController(controller.Config{Name: "b", Reconciler: reconcile.Func(nil)}))
		err := m.AddController(controller.Config{Name: "a", Reconciler: reconcile.Func(nil)})
		assert.ErrorContains(t, err, `already has a controller named "a"`)
		if code, body := get(t, m.MetricsHandler(), "/metrics"); code != 200 {
			t.Errorf("/metrics answers %d %s", code, body)
		}
	}
}
