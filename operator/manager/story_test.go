package manager_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest/apiserver"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

// On a real API server, in real time, two replicas lead alternately while objects are created. Each
// object gets one child, although the name of the child would allow a second one.
func TestFailoverStory(t *testing.T) {
	cfg := apiserver.For(t)
	direct, err := client.New(client.Config{REST: cfg})
	must(t, err)
	ns := fmt.Sprint("failover-", time.Now().UnixNano())
	must(t, direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	t.Cleanup(func() {
		_ = direct.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	})
	start := func(name string) (m *manager.Manager, stop func() error) {
		t.Helper()
		m, err := manager.New(manager.Config{
			REST: cfg, Name: "failover", Log: slog.New(slog.DiscardHandler),
			Election: &leader.Config{Lease: client.Key{Namespace: ns, Name: "failover"}, Identity: name},
		})
		must(t, err)
		r := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			children, err := client.List[corev1.Secret](ctx, m.Client(), client.InNamespace(ns),
				client.MatchingLabels{"of": req.Name})
			if err != nil || len(children) > 0 || req.Namespace != ns {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, m.Client().Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, GenerateName: req.Name + "-", Labels: map[string]string{"of": req.Name},
			}})
		})
		must(t, m.AddController(controller.Config{Name: "child", Reconciler: r, Sources: []controller.Source{
			&controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}},
			&controller.Kind{Informers: m.Informers(), Object: &corev1.Secret{},
				Handler: func(controller.Event, func(reconcile.Request)) {}},
		}}))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		return m, sync.OnceValue(func() error { cancel(); return <-ended })
	}
	const turns, each = 4, 10
	m, stop := start("replica-0")
	t.Cleanup(func() { _ = stop() })
	<-m.Elected()
	for turn := range turns {
		for n := range each {
			must(t, direct.Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("c-%d-%d", turn, n)}}))
		}
		next, stopNext := start(fmt.Sprint("replica-", turn+1))
		t.Cleanup(func() { _ = stopNext() })
		must(t, stop()) // during the work
		<-next.Elected()
		stop = stopNext
	}
	var wrong string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		children, err := client.List[corev1.Secret](t.Context(), direct, client.InNamespace(ns))
		must(t, err)
		count := map[string]int{}
		for _, s := range children {
			count[s.Labels["of"]]++
		}
		wrong = ""
		for turn := range turns {
			for n := range each {
				name := fmt.Sprintf("c-%d-%d", turn, n)
				if count[name] > 1 {
					t.Fatalf("%s has %d children", name, count[name])
				}
				if count[name] == 0 {
					wrong = name + " has no child"
				}
			}
		}
		if wrong == "" {
			return
		}
	}
	t.Error(wrong)
}
