package workloads

import (
	"context"
	"log/slog"
)

// Debugging gives h all records at level Debug. Kubernetes' controllers report as errors what they do again a moment later, such as that
// they have not read yet what they have just written, and that their watches ended when they were told to end.
func Debugging(h slog.Handler) slog.Handler { return debugging{h} }

type debugging struct{ slog.Handler }

func (d debugging) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d debugging) Handle(ctx context.Context, r slog.Record) error {
	if !d.Enabled(ctx, slog.LevelDebug) { // logr does not ask before it hands on an error
		return nil
	}
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d debugging) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugging{d.Handler.WithAttrs(attrs)}
}
func (d debugging) WithGroup(name string) slog.Handler { return debugging{d.Handler.WithGroup(name)} }
