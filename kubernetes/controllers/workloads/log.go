package workloads

import (
	"context"
	"log/slog"
)

// Debugging returns a handler that passes all records to h at level Debug. Kubernetes' controllers
// report errors that they resolve with a retry a moment later, such as a cache that does not have
// their last write yet, or a watch that ended during shutdown.
//
// Records below level Debug, which is logr's V(4), are dropped: from V(8) on, client-go logs the
// bodies of requests and responses.
func Debugging(h slog.Handler) slog.Handler { return debugging{h} }

type debugging struct{ slog.Handler }

func (d debugging) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d debugging) Handle(ctx context.Context, r slog.Record) error {
	if !d.Enabled(ctx, r.Level) { // logr calls Enabled for information but not for errors
		return nil
	}
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d debugging) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugging{d.Handler.WithAttrs(attrs)}
}
func (d debugging) WithGroup(name string) slog.Handler { return debugging{d.Handler.WithGroup(name)} }
