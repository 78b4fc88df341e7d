package adapter

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"

	"kelson.dev/operator/trace"
)

// withLogs returns a context whose logger also adds to the record of a reconcile what it logs. It
// returns ctx if it has no logger, or if the record has no logs.
func withLogs(ctx context.Context, span *trace.Span) context.Context {
	logger, err := logr.FromContext(ctx)
	if err != nil || logger.GetSink() == nil {
		return ctx
	}
	discard := slog.New(slog.DiscardHandler)
	recorder := span.Log(discard)
	if recorder == discard {
		return ctx
	}
	inner := logger.GetSink()
	if deep, ok := inner.(logr.CallDepthLogSink); ok {
		inner = deep.WithCallDepth(1) // the frame of logSink
	}
	return logr.NewContext(ctx, logger.WithSink(&logSink{inner, recorder.Handler()}))
}

// logSink is an operator's own LogSink, which decides what is logged, with a handler that gets the
// same records.
type logSink struct {
	logr.LogSink
	recorder slog.Handler
}

// Init does nothing: the operator's sink is in use already.
func (s *logSink) Init(logr.RuntimeInfo) {}

func (s *logSink) Info(level int, message string, pairs ...any) {
	s.record(slog.Level(-level), message, pairs)
	s.LogSink.Info(level, message, pairs...)
}

func (s *logSink) Error(err error, message string, pairs ...any) {
	if err != nil {
		pairs = append([]any{"err", err}, pairs...)
	}
	s.record(slog.LevelError, message, pairs)
	if err != nil {
		pairs = pairs[2:]
	}
	s.LogSink.Error(err, message, pairs...)
}

func (s *logSink) record(level slog.Level, message string, pairs []any) {
	r := slog.NewRecord(time.Time{}, level, message, 0)
	r.Add(pairs...)
	_ = s.recorder.Handle(context.Background(), r) // adding to a record does not fail
}

func (s *logSink) WithValues(pairs ...any) logr.LogSink {
	return &logSink{s.LogSink.WithValues(pairs...), s.recorder.WithAttrs(slog.Group("", pairs...).Value.Group())}
}

func (s *logSink) WithName(name string) logr.LogSink {
	return &logSink{s.LogSink.WithName(name), s.recorder}
}

func (s *logSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return &logSink{deep.WithCallDepth(depth), s.recorder}
	}
	return s
}
