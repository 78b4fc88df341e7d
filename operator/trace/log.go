package trace

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// Log is one log record of a reconcile.
type Log struct {
	At      time.Duration // from the start of the reconcile
	Level   slog.Level
	Message string
	// Attributes are those of the call, in the format of slog.TextHandler.
	Attributes string
}

// Log returns a logger that logs through log and also adds each message to the record. If the
// record has no details, it returns log.
func (s *Span) Log(log *slog.Logger) *slog.Logger {
	if s == nil || !s.tracer.Details() {
		return log
	}
	return slog.New(&logHandler{Handler: log.Handler(), span: s})
}

type logHandler struct {
	slog.Handler // the operator's own, which decides what is logged
	span         *Span
	with         []func(slog.Handler) slog.Handler // calls of WithAttrs and WithGroup
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	at := time.Since(h.span.record.Time)
	h.span.detail(func(d *Details) {
		if len(d.Logs) < maxLogs {
			d.Logs = append(d.Logs, Log{at, r.Level, shorten(r.Message), shorten(h.attributes(r))})
		} else {
			d.MoreLogs++
		}
	})
	return h.Handler.Handle(ctx, r)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.and(h.Handler.WithAttrs(attrs), func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return h.and(h.Handler.WithGroup(name), func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *logHandler) and(inner slog.Handler, with func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{inner, h.span, append(h.with[:len(h.with):len(h.with)], with)}
}

// attributes returns the attributes of a record and of the handler as text.
func (h *logHandler) attributes(r slog.Record) string {
	var b strings.Builder
	skip := 0 // how many attributes to skip: level and message, which Log has as fields
	var text slog.Handler = slog.NewTextHandler(&b, &slog.HandlerOptions{
		Level: slog.Level(-1 << 31),
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if skip > 0 && len(groups) == 0 && (a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
				skip--
				return slog.Attr{}
			}
			return a
		},
	})
	for _, with := range h.with {
		text = with(text)
	}
	skip = 2
	plain := slog.NewRecord(time.Time{}, r.Level, "", 0) // a time would be an attribute
	r.Attrs(func(a slog.Attr) bool {
		plain.AddAttrs(a)
		return true
	})
	_ = text.Handle(context.Background(), plain) // writing to memory does not fail
	return strings.TrimSpace(b.String())
}

// shorten bounds a text.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
