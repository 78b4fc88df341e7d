package adapter_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/adapter"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
)

// A builder without For takes metadata watches, raw sources and a log constructor, and returns the
// controller.
func TestBuilderWithoutFor(t *testing.T) {
	t.Run("WithLogConstructor", func(t *testing.T) { testBuilderWithoutFor(t, (*adapter.Builder).WithLogConstructor) })
	t.Run("WithOptions", func(t *testing.T) {
		testBuilderWithoutFor(t, func(b *adapter.Builder, logs func(*reconcile.Request) logr.Logger) *adapter.Builder {
			return b.WithOptions(controller.Options{LogConstructor: logs})
		})
	})
}

func testBuilderWithoutFor(t *testing.T, withLogs func(*adapter.Builder,
	func(*reconcile.Request) logr.Logger) *adapter.Builder) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		m, err := manager.New(manager.Config{REST: s.REST(), Name: "test", Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		var mu sync.Mutex
		seen, logged, types := map[string]int{}, []string{}, map[string]bool{}
		r := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			crlog.FromContext(ctx).Info("reconciling")
			mu.Lock()
			defer mu.Unlock()
			seen[req.Name]++
			return reconcile.Result{}, nil
		})
		events := make(chan event.GenericEvent, 1)
		mapped := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o crclient.Object) []reconcile.Request {
			mu.Lock()
			defer mu.Unlock()
			_, isMetadata := o.(*metav1.PartialObjectMetadata)
			types[o.GetName()] = isMetadata
			return []reconcile.Request{{NamespacedName: crclient.ObjectKeyFromObject(o)}}
		})
		b := adapter.NewControllerManagedBy(m).Named("two").
			WatchesMetadata(&corev1.ConfigMap{}, mapped).
			WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{}))
		c, err := withLogs(b, func(req *reconcile.Request) logr.Logger {
			return funcr.New(func(prefix, args string) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, args)
			}, funcr.Options{}).
				WithValues("constructed", req.Name)
		}).Build(r)
		must(t, err)
		assert.Equalf(t, c.Name(), "two", "the controller is named")
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		must(t, m.LiveClient().Create(t.Context(), configMap("watched", "")))
		time.Sleep(time.Second)
		events <- event.GenericEvent{Object: configMap("sent", "")}
		time.Sleep(time.Second)
		cancel()
		must(t, <-ended)
		if seen["watched"] != 1 || seen["sent"] != 1 || !types["watched"] {
			t.Errorf("reconciled %v, metadata %v", seen, types)
		}
		if len(logged) != 2 || !strings.Contains(strings.Join(logged, " "), `"constructed"="sent"`) {
			t.Errorf("logged %v", logged)
		}
	})
}

// If a required call of the builder is missing, the error names it.
func TestBuilderErrors(t *testing.T) {
	m, err := manager.New(manager.Config{REST: apitest.New().REST(), Name: "test"})
	must(t, err)
	r := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	for want, err := range map[string]error{
		"For()":      adapter.NewControllerManagedBy(m).Named("a").Owns(&corev1.Pod{}).Complete(r),
		"no watches": adapter.NewControllerManagedBy(m).Named("b").Complete(r),
		"named": adapter.NewControllerManagedBy(m).Watches(&corev1.Pod{},
			&handler.EnqueueRequestForObject{}).Complete(r),
		"non-nil Reconciler": adapter.NewControllerManagedBy(m).For(&corev1.Pod{}).Complete(nil),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// A handler can change state that the reconciler reads, such as expectations. The requests that it
// then adds are reconciled, even if a reconcile has started since the event could be read.
func TestStatefulHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		m, err := manager.New(manager.Config{REST: s.REST(), Name: "test", Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		owner := reconcile.Request{NamespacedName: crclient.ObjectKey{Namespace: "default", Name: "owner"}}
		var observed, seen atomic.Bool
		again := make(chan event.GenericEvent, 1)
		must(t, adapter.NewControllerManagedBy(m).Named("expecting").
			Watches(&corev1.Pod{}, handler.Funcs{
				CreateFunc: func(_ context.Context, _ event.CreateEvent,
					q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					time.Sleep(10 * time.Millisecond)
					observed.Store(true)
					q.Add(owner)
				},
			}).
			WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{})).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				seen.Store(observed.Load())
				return reconcile.Result{}, nil
			})))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(time.Second)
		must(t, m.LiveClient().Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child"}}))
		time.Sleep(5 * time.Millisecond)
		again <- event.GenericEvent{Object: configMap("owner", "")}
		time.Sleep(time.Second)
		cancel()
		must(t, <-ended)
		if !seen.Load() {
			t.Error("no reconcile saw what the handler had observed")
		}
	})
}
