package operator_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"kelson.dev/internal/assert"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// claiming is a reconciler with a finalizer. Pods name ConfigMaps that it should reconcile.
type claiming struct{ visits *visits }

func (c claiming) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	c.visits.note(ctx, cm)
	return operator.Result{}, nil
}

func (c claiming) Finalize(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	return operator.Result{}, nil
}

func (c claiming) ofPod(_ context.Context, pod *corev1.Pod) []operator.Request {
	return []operator.Request{{NamespacedName: client.KeyOf(pod)}}
}

// A watch that names an object outside of the namespaces or names of its controller does not make
// the controller reconcile it: the object gets no finalizer, which nothing would remove.
func TestRequestsOutsideOfTheScope(t *testing.T) {
	for name, scope := range map[string]operator.Part{
		"Namespaces":        operator.Namespaces("a"),
		"Cache of the kind": operator.Cache[corev1.ConfigMap](informer.Scope{Namespaces: []string{"a"}}),
		"Cache by fields": operator.Cache[corev1.ConfigMap](
			informer.Scope{Fields: fields.ParseSelectorOrDie("metadata.name=in")}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				c, err := client.New(client.Config{REST: s.REST()})
				must(t, err)
				for _, key := range []client.Key{{Namespace: "a", Name: "in"}, {Namespace: "b", Name: "one"},
					{Namespace: "b", Name: "two"}} {
					create(t, s, key.Namespace, key.Name, nil)
					must(t, c.Create(t.Context(),
						&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
				}
				var v visits
				log := &lines{}
				custom := controller.SourceFunc(func(_ context.Context, q controller.Queue) (<-chan struct{}, error) {
					q.Add(operator.Request{NamespacedName: client.Key{Namespace: "b", Name: "one"}},
						controller.Why("custom"))
					synced := make(chan struct{})
					close(synced)
					return synced, nil
				})
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() {
					ended <- operator.Run(ctx, operator.Config{REST: s.REST(),
						Log: slog.New(slog.NewTextHandler(log, nil))}, operator.Name("test"), scope,
						operator.Cache[corev1.Pod](informer.Scope{Namespaces: []string{metav1.NamespaceAll}}),
						operator.For(func(operator.Client) claiming {
							return claiming{&v}
						}, operator.Watches(claiming.ofPod), operator.From(custom)))
				}()
				time.Sleep(time.Minute)
				assert.Slicef(t, v.names(), []string{"in"}, "reconciled")
				for _, name := range []string{"one", "two"} {
					var cm corev1.ConfigMap
					if must(t, c.Get(t.Context(), client.Key{Namespace: "b", Name: name}, &cm)); len(cm.Finalizers) > 0 {
						t.Errorf("%s got the finalizers %v", name, cm.Finalizers)
					}
				}
				cancel()
				must(t, <-ended)
				// One line is of the watch, and one of the source.
				if n := log.count("outside of the controller's scope"); n != 2 {
					t.Errorf("%d lines of the log:\n%s", n, log.text())
				}
			})
		})
	}
}

// lines is a log. It is safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *lines) count(part string) int { return strings.Count(l.text(), part) }
