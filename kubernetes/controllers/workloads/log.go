package workloads

import (
	"context"
	"log/slog"
)

// Debugging gives h all records at level Debug. Kubernetes' controllers report as errors what they do again a moment later, such as that
// they have not read yet what they have just written, and that their watches ended when they were told to end.
//
// Records below level Debug, which is logr's V(4), are dropped: from V(8) on client-go logs the bodies of requests and responses.
func Debugging(h slog.Handler) slog.Handler { return debugging{h} }

type debugging struct{ slog.Handler }

func (d debugging) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d debugging) Handle(ctx context.Context, r slog.Record) error {
	if !d.Enabled(ctx, r.Level) { // logr does not ask before it hands on an error
		return nil
	}
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d debugging) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugging{d.Handler.WithAttrs(attrs)}
}
func (d debugging) WithGroup(name string) slog.Handler { return debugging{d.Handler.WithGroup(name)} }
