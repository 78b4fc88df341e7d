package trace_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// provider replaces an SDK, and retains the spans.
type provider struct {
	embedded.TracerProvider
	mu    sync.Mutex
	spans []*span
}

func (p *provider) Tracer(string, ...oteltrace.TracerOption) oteltrace.Tracer { return tracer{p: p} }

type tracer struct {
	embedded.Tracer
	p *provider
}

func (t tracer) Start(ctx context.Context, name string,
	opts ...oteltrace.SpanStartOption) (context.Context, oteltrace.Span) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	s := &span{name: name, parent: oteltrace.SpanContextFromContext(ctx)}
	cfg := oteltrace.NewSpanStartConfig(opts...)
	if cfg.NewRoot() {
		s.parent = oteltrace.SpanContext{}
	}
	s.self = oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{1, byte(len(t.p.spans))},
		SpanID: oteltrace.SpanID{1, byte(len(t.p.spans))}})
	t.p.spans = append(t.p.spans, s)
	return oteltrace.ContextWithSpan(ctx, s), s
}

type span struct {
	noop.Span
	name         string
	self, parent oteltrace.SpanContext
	links        []oteltrace.Link
	status       codes.Code
	attributes   []attribute.KeyValue
	ended        bool
}

func (s *span) SpanContext() oteltrace.SpanContext     { return s.self }
func (s *span) IsRecording() bool                      { return true }
func (s *span) SetName(name string)                    { s.name = name }
func (s *span) SetStatus(code codes.Code, _ string)    { s.status = code }
func (s *span) AddLink(l oteltrace.Link)               { s.links = append(s.links, l) }
func (s *span) SetAttributes(kv ...attribute.KeyValue) { s.attributes = append(s.attributes, kv...) }
func (s *span) End(...oteltrace.SpanEndOption)         { s.ended = true }

// A span per reconcile, linked to the one that caused it, and one per write.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		tr := trace.New(trace.Config{Provider: p})
		c := tr.Client(newClient(t, apitest.New()))
		request := reconcile.Request{NamespacedName: client.Key{Namespace: "default", Name: "a"}}
		ctx, first := tr.Start(t.Context(), trace.Record{Controller: "one", Kind: "At", Request: request})
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		must(t, c.Create(ctx, cm))
		first.End(reconcile.Result{}, nil)
		ctx, second := tr.Start(t.Context(), trace.Record{Controller: "two", Kind: "ConfigMap", Request: request,
			Causes: trace.Because(on("add", "ConfigMap", "a", cm.ResourceVersion))})
		// fails, because the ConfigMap exists
		_ = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		second.End(reconcile.Result{}, errors.New("reconcile failed"))
		var names []string
		for _, s := range p.spans {
			names = append(names, s.name)
			if !s.ended {
				t.Errorf("%s has not ended", s.name)
			}
		}
		if want := []string{"reconcile one", "create ConfigMap", "reconcile two",
			"create ConfigMap"}; !slices.Equal(names, want) {
			t.Fatalf("got %q, want %q", names, want)
		}
		if !p.spans[1].parent.Equal(p.spans[0].self) || p.spans[0].parent.IsValid() || p.spans[2].parent.IsValid() {
			t.Error("a write is not a child of its reconcile, or a reconcile is not a root")
		}
		if links := p.spans[2].links; len(links) != 1 || !links[0].SpanContext.Equal(p.spans[0].self) {
			t.Errorf("the second is linked to %v", links)
		}
		if p.spans[2].status != codes.Error || p.spans[3].status != codes.Error || p.spans[1].status == codes.Error {
			t.Error("errors are recorded in the wrong spans")
		}
	})
}
