package trace_test

import (
	"context"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// instant is a client whose calls do nothing, so that the benchmark measures only the tracer.
type instant struct{ client.Client }

func (instant) Get(context.Context, client.Key, client.Object, ...client.GetOption) error { return nil }
func (instant) List(context.Context, client.ObjectList, ...client.ListOption) error       { return nil }
func (instant) Update(context.Context, client.Object, ...client.WriteOption) error        { return nil }
func (instant) Scheme() *runtime.Scheme                                                   { return scheme.Scheme }

// BenchmarkReconcile measures a reconcile with two reads and a write: without records, as most
// operators run, and with records.
func BenchmarkReconcile(b *testing.B) {
	for _, mode := range []struct {
		name string
		cfg  trace.Config
	}{
		{"off", trace.Config{Loops: func(trace.Loop) {}}},
		{"on", trace.Config{Loops: func(trace.Loop) {}, Sink: trace.JSON(io.Discard)}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			tracer := trace.New(mode.cfg)
			c := tracer.Client(instant{})
			key := client.Key{Namespace: "default", Name: "a"}
			req := reconcile.Request{NamespacedName: key}
			pod, pods := &corev1.Pod{}, &corev1.PodList{}
			pod.Namespace, pod.Name, pod.ResourceVersion = "default", "a", "7"
			b.ReportAllocs()
			for b.Loop() {
				ctx, span := tracer.Start(context.Background(),
					trace.Record{Controller: "test", Kind: "Pod", Request: req})
				_ = c.Get(ctx, key, pod)
				_ = c.List(ctx, pods)
				_ = c.Update(ctx, pod)
				span.End(reconcile.Result{}, nil)
			}
		})
	}
}
