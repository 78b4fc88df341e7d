package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/webhook"
)

// visits counts the reconciles of each object by each replica.
type visits struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (v *visits) note(ctx context.Context, cm *corev1.ConfigMap) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	name := cm.Name
	if cluster := reconcile.Cluster(ctx); cluster != "" {
		name = cluster + ":" + name
	}
	v.seen[name] = true
}

func (v *visits) names() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.seen))
}

type visitor struct{ *visits }

func (v visitor) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	v.note(ctx, cm)
	return operator.Result{}, nil
}

func visiting(v *visits) func(operator.Client) visitor {
	return func(operator.Client) visitor { return visitor{v} }
}

func create(t *testing.T, s *apitest.Server, namespace, name string, labels map[string]string) {
	t.Helper()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	must(t, c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: labels}}))
}

// runIn runs an operator in the bubble of the test, until the result is called.
func runIn(t *testing.T, cfg operator.Config, parts ...operator.Part) (stop func()) {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx, cfg, append(parts, operator.Name("test"))...) }()
	return func() { cancel(); must(t, <-ended) }
}

// Controllers get the objects of the caches.
func TestCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		for _, namespace := range []string{"a", "b", "c"} {
			create(t, s, namespace, "in-"+namespace, nil)
		}
		var all, scoped visits
		stop := runIn(t, operator.Config{REST: s.REST()}, operator.Namespaces("a", "b"), operator.For(visiting(&all)))
		stopScoped := runIn(t, operator.Config{REST: s.REST()}, operator.For(visiting(&scoped)),
			operator.Cache[corev1.ConfigMap](informer.Scope{Namespaces: []string{"c"}}, informer.Compact),
			operator.Transform(func(cm *corev1.ConfigMap) *corev1.ConfigMap { cm.ManagedFields = nil; return cm }))
		time.Sleep(time.Second)
		assert.Slicef(t, all.names(), []string{"in-a", "in-b"}, "with Namespaces")
		assert.Slicef(t, scoped.names(), []string{"in-c"}, "with Cache")
		stop()
		stopScoped()
	})
}

// An operator works in additional clusters.
func TestClustersOfAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, east := apitest.New(), apitest.New()
		create(t, own, "default", "here", nil)
		create(t, east, "default", "there", nil)
		var v visits
		stop := runIn(t, operator.Config{REST: own.REST(), Clusters: map[string]*rest.Config{"east": east.REST()}},
			operator.For(visiting(&v)))
		time.Sleep(time.Second)
		assert.Slice(t, v.names(), []string{"east:there", "here"})
		stop()
	})
}

// Two replicas share the objects.
func TestSharded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		var a, b visits
		election := &leader.Config{Lease: client.Key{Namespace: "system"}}
		stopA := runIn(t, operator.Config{REST: s.REST(), Election: election},
			operator.For(visiting(&a), operator.Sharded()))
		stopB := runIn(t, operator.Config{REST: s.REST(), Election: election},
			operator.For(visiting(&b), operator.Sharded()))
		time.Sleep(time.Minute)
		for i := range 30 {
			create(t, s, "default", fmt.Sprint("cm", i), nil)
		}
		time.Sleep(time.Second)
		if na, nb := len(a.names()), len(b.names()); na+nb != 30 || na < 5 || nb < 5 {
			t.Errorf("they have %d and %d of 30", na, nb)
		}
		stopA()
		time.Sleep(time.Second)
		if n := len(b.names()); n != 30 {
			t.Errorf("the remaining replica has %d of 30", n)
		}
		stopB()
	})
}

type half struct{}

func (half) ValidateCreate(context.Context, *corev1.ConfigMap) error { return nil }

// Errors in webhooks are reported at the start.
func TestWrongWebhooks(t *testing.T) {
	for want, part := range map[string]operator.Part{
		"method ValidateCreate of operator_test.half has the type": operator.Webhook[corev1.ConfigMap](
			func(operator.Client) half { return half{} }),
		"operator_test.reviewer has none of the methods": operator.Webhook[corev1.ConfigMap](
			func(operator.Client) reviewer { return reviewer{} }),
		"option DefaultingPath is set": operator.Webhook[corev1.ConfigMap](newDoorman,
			operator.DefaultingPath("/x")),
		"a path begins with a slash": operator.Webhook[corev1.ConfigMap](newDoorman,
			operator.ValidationPath("x")),
		"is its AddToScheme among the parts?": operator.Webhook[Boat](newBoatWebhook),
		"it must take an operator.Client or operator.Deps": operator.Admission("/mutate-x",
			func(int) webhook.Handler { return nil }),
	} {
		cfg := operator.Config{REST: apitest.New().REST(), Log: slog.New(slog.DiscardHandler)}
		assert.ErrorContains(t, operator.Run(t.Context(), cfg, part), want)
		cfg.NoWebhooks = true
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stopped before the start"))
		assert.NoErrorf(t, operator.Run(ctx, cfg, part), "without webhooks")
	}
}

// watcher starts to watch Pods on request.
type watcher struct {
	operator.Deps
	*visits
	stop func()
}

func (w *watcher) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	w.note(ctx, cm)
	var err error
	switch {
	case cm.Labels["watch"] == "pods" && w.stop == nil:
		w.stop, err = w.Watch(&controller.Kind{Informers: w.Informers, Object: &corev1.Pod{},
			Handler: controller.EnqueueMapped(
				func(pod client.Object) []operator.Request {
					return []operator.Request{{NamespacedName: client.Key{Namespace: "default",
						Name: pod.GetLabels()["for"]}}}
				})})
	case cm.Labels["watch"] == "stop":
		w.stop()
	}
	return operator.Result{}, err
}

// Sources at run time.
func TestDynamicWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		c, err := client.New(client.Config{REST: s.REST()})
		must(t, err)
		var v visits
		stop := runIn(t, operator.Config{REST: s.REST()}, operator.For(func(deps operator.Deps) *watcher {
			return &watcher{Deps: deps, visits: &v}
		}))
		create(t, s, "default", "target", nil)
		visited := func() bool {
			time.Sleep(time.Second)
			seen := slices.Contains(v.names(), "target")
			v.mu.Lock()
			clear(v.seen)
			v.mu.Unlock()
			return seen
		}
		pod := func(name string) {
			must(t, c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				Labels: map[string]string{"for": "target"}}}))
		}
		visited()
		if pod("one"); visited() {
			t.Error("an unrequested kind is watched")
		}
		if create(t, s, "default", "begin", map[string]string{"watch": "pods"}); !visited() {
			t.Error("the existing Pod was not observed")
		}
		if pod("two"); !visited() {
			t.Error("the new Pod was not observed")
		}
		create(t, s, "default", "end", map[string]string{"watch": "stop"})
		visited()
		if pod("three"); visited() {
			t.Error("Pods are still watched")
		}
		stop()
	})
}
