package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/adapter"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/internal/apitest/apiserver"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/trace"
)

// copier is a typical reconciler for controller-runtime: it creates a Pod for each ConfigMap with
// the label copy.
type copier struct {
	crclient.Client
	mu    sync.Mutex
	runs  map[string]int
	stale bool
}

func (r *copier) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.mu.Lock()
	r.runs[req.Name]++
	runs := r.runs[req.Name]
	r.mu.Unlock()
	crlog.FromContext(ctx).Info("reconciling", "runs", runs)
	cm := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, cm); err != nil {
		return reconcile.Result{}, crclient.IgnoreNotFound(err)
	}
	switch cm.Labels["copy"] {
	case "again":
		//lint:ignore SA1019 as existing reconcilers are written
		return reconcile.Result{Requeue: runs < 4}, nil
	case "terminal":
		return reconcile.Result{}, reconcile.TerminalError(errors.New("never"))
	case "error":
		if runs < 3 {
			return reconcile.Result{}, errors.New("not yet")
		}
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, pod, func() error {
		pod.Labels = map[string]string{"from": cm.Data["from"]}
		if len(pod.Spec.Containers) == 0 {
			pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		}
		return controllerutil.SetControllerReference(cm, pod, r.Scheme())
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	read := &corev1.Pod{}
	if err := r.Get(ctx, req.NamespacedName, read); err != nil || read.ResourceVersion != pod.ResourceVersion {
		r.stale = true // controller-runtime's cache would often be stale
	}
	return reconcile.Result{}, nil
}

func (r *copier) setup(m *manager.Manager) error {
	return adapter.NewControllerManagedBy(m).
		For(&corev1.ConfigMap{}, adapter.WithPredicates(predicate.NewPredicateFuncs(func(o crclient.Object) bool {
			return o.GetLabels()["copy"] != ""
		}))).
		Owns(&corev1.Pod{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context,
			o crclient.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: crclient.ObjectKey{Namespace: o.GetNamespace(),
				Name: o.GetAnnotations()["for"]}}}
		}), adapter.WithPredicates(predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }})).
		WithOptions(crcontroller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

func (r *copier) count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[name]
}

var must = require.NoError

func configMap(name, copy string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Labels: map[string]string{"copy": copy}}, Data: map[string]string{"from": "here"}}
}

// start runs a manager with a copier until the test ends, or until the returned function is called.
func start(t *testing.T, config *rest.Config, sink trace.Sink) (*copier, *manager.Manager, func()) {
	t.Helper()
	m, err := manager.New(manager.Config{REST: config, Name: "copier", Trace: sink,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must(t, err)
	r := &copier{Client: adapter.Client(m), runs: map[string]int{}}
	must(t, r.setup(m))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); must(t, <-ended) })
	t.Cleanup(stop)
	return r, m, stop
}

// A reconciler written for controller-runtime runs with its predicates, owned objects, watches,
// requeues and errors, and its reconciles are traced.
func TestReconcilerOfControllerRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		var records []trace.Record
		r, m, stop := start(t, s.REST(), trace.Func(func(rec trace.Record) { records = append(records, rec) }))
		c := m.LiveClient()
		ctx := t.Context()
		for _, cm := range []*corev1.ConfigMap{configMap("plain", "yes"), configMap("again", "again"),
			configMap("terminal", "terminal"), configMap("error", "error")} {
			must(t, c.Create(ctx, cm))
		}
		must(t, c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "unlabelled"}}))
		time.Sleep(time.Second)
		if n := r.count("again"); n != 4 {
			t.Errorf("Requeue: %d runs, want 4", n)
		}
		if n := r.count("terminal"); n != 1 {
			t.Errorf("TerminalError: %d runs, want 1", n)
		}
		if n := r.count("error"); n != 3 {
			t.Errorf("error: %d runs, want 3", n)
		}
		time.Sleep(time.Hour)
		if n := r.count("error"); n != 4 {
			t.Errorf("RequeueAfter: %d runs, want 4", n)
		}
		if n := r.count("unlabelled"); n != 0 {
			t.Errorf("a predicate was not called: %d runs", n)
		}
		pod, err := client.Get[corev1.Pod](ctx, c, client.Key{Namespace: "default", Name: "plain"})
		must(t, err)
		if pod.Labels["from"] != "here" || metav1.GetControllerOf(pod) == nil || r.stale {
			t.Errorf("got %+v, stale %v", pod.ObjectMeta, r.stale)
		}
		before := r.count("plain")
		must(t, c.Delete(ctx, pod)) // Owns
		time.Sleep(time.Second)
		if _, err := client.Get[corev1.Pod](ctx, c, client.KeyOf(pod)); err != nil || r.count("plain") == before {
			t.Errorf("the owned Pod was not recreated: %v", err)
		}
		before = r.count("plain")
		must(t, c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s",
			Annotations: map[string]string{"for": "plain"}}}))
		time.Sleep(time.Second)
		if n := r.count("plain"); n != before+1 {
			t.Errorf("Watches: %d runs more, want 1", n-before)
		}
		stop()
		for _, rec := range records { // its causes are recorded, as for any controller
			if rec.Request.Name == "plain" && len(rec.Causes.All()) == 0 {
				t.Errorf("a reconcile without a cause: %+v", rec)
			}
		}
	})
}

// On a real server, the client behaves as reconcilers expect of controller-runtime's client.
func TestClientStory(t *testing.T) {
	config := apiserver.For(t)
	r, m, stop := start(t, config, nil)
	defer stop()
	c, ctx := adapter.Client(m), t.Context()
	cm := configMap("story", "yes")
	must(t, c.Create(ctx, cm, crclient.FieldOwner("me")))
	t.Cleanup(func() {
		live := adapter.Wrap(m.LiveClient())
		_ = live.Delete(context.Background(), configMap("story", ""))
		_ = live.DeleteAllOf(context.Background(), &corev1.Pod{}, crclient.InNamespace("default"),
			crclient.MatchingLabels{"from": "here"}, crclient.GracePeriodSeconds(0))
	})
	assert.Equalf(t, cm.ManagedFields[0].Manager, "me", "written by")
	pod := &corev1.Pod{}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err := c.Get(ctx, crclient.ObjectKeyFromObject(cm), pod); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	list := &corev1.PodList{}
	must(t, c.List(ctx, list, crclient.InNamespace("default"), crclient.MatchingLabels{"from": "here"}))
	if len(list.Items) != 1 || r.stale {
		t.Errorf("%d pods, stale %v", len(list.Items), r.stale)
	}
	base := cm.DeepCopy()
	cm.Data["more"] = "x"
	must(t, c.Patch(ctx, cm, crclient.MergeFrom(base)))
	apply := applycorev1.ConfigMap("story", "default").WithData(map[string]string{"more": "y"})
	if err := c.Apply(ctx, apply, crclient.FieldOwner("other")); !apierrors.IsConflict(err) {
		t.Errorf("an apply that is not forced: %v", err)
	}
	must(t, c.Apply(ctx, apply, crclient.FieldOwner("other"), crclient.ForceOwnership))
	if apply.ResourceVersion == nil || apply.Data["from"] != "here" {
		t.Errorf("the configuration lacks the response: %v", apply.Data)
	}
	must(t, c.Get(ctx, crclient.ObjectKeyFromObject(cm), cm))
	assert.Equalf(t, cm.Data["more"], "y", "a read returns %v after the client's own apply", cm.Data)
	stale := cm.DeepCopy()
	stale.ResourceVersion = "1"
	if err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	must(t, c.Update(ctx, cm.DeepCopy(), crclient.DryRunAll))
	// "all" is not a value of the API, but must not lead to a write.
	_ = c.Delete(ctx, cm.DeepCopy(), &crclient.DeleteOptions{DryRun: []string{"all"}})
	must(t, c.Get(ctx, crclient.ObjectKeyFromObject(cm), cm.DeepCopy()))
	pod.Status.Phase, pod.Status.Message = corev1.PodRunning, "as the test says"
	must(t, c.Status().Update(ctx, pod))
	if namespaced, err := c.IsObjectNamespaced(&corev1.Node{}); err != nil || namespaced {
		t.Errorf("nodes: %v, %v", namespaced, err)
	}
	if kind, err := c.GroupVersionKindFor(pod); err != nil || !strings.Contains(fmt.Sprint(kind), "Kind=Pod") {
		t.Errorf("%v, %v", kind, err)
	}
}
