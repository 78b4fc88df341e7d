package trace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"kelson.dev/operator/client"
)

// startSpan starts the OpenTelemetry span of a reconcile. It is a root span: its causes are links,
// since there can be several.
func (t *Tracer) startSpan(ctx context.Context, r Record) (context.Context, oteltrace.Span) {
	ctx, span := t.otel.Start(ctx, "reconcile "+r.Controller, oteltrace.WithNewRoot(), oteltrace.WithTimestamp(r.Time),
		oteltrace.WithAttributes(
			attribute.String("controller", r.Controller), attribute.String("k8s.object.kind", r.Kind),
			attribute.String("k8s.namespace.name", r.Request.Namespace),
			attribute.String("k8s.object.name", r.Request.Name),
		))
	if r.Request.Cluster != "" {
		span.SetAttributes(attribute.String("k8s.cluster.name", r.Request.Cluster))
	}
	t.known.started(r.ID, span.SpanContext())
	return ctx, span
}

func (t *Tracer) endSpan(span oteltrace.Span, r Record) {
	for _, c := range r.Causes.All() {
		attributes := []attribute.KeyValue{
			attribute.String("event", c.Event), attribute.String("k8s.object.kind", c.Kind),
			attribute.String("k8s.namespace.name", c.Key.Namespace), attribute.String("k8s.object.name", c.Key.Name),
			attribute.String("k8s.object.resource_version", c.ResourceVersion),
		}
		if by := t.known.span(c.By); by.IsValid() {
			span.AddLink(oteltrace.Link{SpanContext: by, Attributes: attributes})
		}
		span.AddEvent("cause", oteltrace.WithTimestamp(r.Time), oteltrace.WithAttributes(attributes...))
	}
	if r.Err != nil {
		span.RecordError(r.Err)
		span.SetStatus(codes.Error, r.Err.Error())
	}
	if r.Result.RequeueAfter > 0 {
		span.SetAttributes(attribute.String("requeue_after", r.Result.RequeueAfter.String()))
	}
	span.End(oteltrace.WithTimestamp(r.Time.Add(r.Duration)))
}

// startWrite starts the span of a write; end ends it.
func (s *Span) startWrite(ctx context.Context, verb, subresource string) (end func(kind string, key client.Key,
	err error)) {
	if s == nil || s.otel == nil || !s.otel.IsRecording() {
		return func(string, client.Key, error) {}
	}
	_, span := s.tracer.otel.Start(ctx, verb, oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	return func(kind string, key client.Key, err error) {
		span.SetName(verb + " " + kind)
		span.SetAttributes(attribute.String("k8s.object.kind", kind),
			attribute.String("k8s.namespace.name", key.Namespace),
			attribute.String("k8s.object.name", key.Name), attribute.String("subresource", subresource))
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

func (v *versions) started(id uint64, span oteltrace.SpanContext) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spans.Set(id, span)
}

func (v *versions) span(id uint64) oteltrace.SpanContext {
	if id == 0 {
		return oteltrace.SpanContext{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	span, _ := v.spans.Get(id)
	return span
}
