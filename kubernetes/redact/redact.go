// Package redact keeps the contents of objects out of logs: records contain the names of objects
// but never their contents.
//
// Many log records come from other projects' code: Kubernetes' controllers and client-go log
// objects, request bodies and differences of specs as attributes, and their errors quote values.
// [New] returns a slog.Handler that filters the attributes of records for another handler:
//
//	numbers, booleans, times, durations     unchanged
//	names: GroupVersionKinds, NamespacedNames, klog.KObj …
//	objects                                 as type, namespace and name
//	strings, errors and messages            up to what looks like the contents of an object, at most 1 KiB
//	all other values                        as their type
//
// A handler is safe for concurrent use if the wrapped one is.
//
//	log := slog.New(redact.New(slog.NewTextHandler(os.Stderr, nil)))
package redact

import (
	"context"
	"log/slog"
)

// New returns a handler that removes the contents of objects from records before it passes them to
// h.
func New(h slog.Handler) slog.Handler {
	if _, ok := h.(handler); ok {
		return h
	}
	return handler{h}
}

// Logger returns a logger whose records pass through New.
func Logger(log *slog.Logger) *slog.Logger { return slog.New(New(log.Handler())) }

type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(cleaned(attrs))}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

func cleaned(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = attr(a)
	}
	return clean
}

// stackKey is the attribute with the stack of a panic. It is not cut: a stack has several lines,
// and addresses instead of values.
const stackKey = "stack"

func attr(a slog.Attr) slog.Attr {
	if a.Key == stackKey && a.Value.Kind() == slog.KindString {
		return a
	}
	return slog.Attr{Key: a.Key, Value: value(a.Value)}
}

func value(v slog.Value) slog.Value {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.StringValue(text(v.String()))
	case slog.KindGroup:
		return slog.GroupValue(cleaned(v.Group())...)
	case slog.KindAny:
		return slog.AnyValue(identity(v.Any()))
	}
	return v
}
