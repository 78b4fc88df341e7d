// Package klogs writes the log lines of Kubernetes' libraries, which use klog, to the log of a
// server, so that all lines of a process have one format.
//
//	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
//	klogs.Route(klogs.Warnings(log.Handler()))
//
// klog's logger is a variable of the process: only a program whose only task is serving should
// route it.
package klogs

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Route makes klog pass its lines to h, which must not log through klog. Structured lines keep
// their attributes. Lines of klog's functions without attributes, such as klog.Warningf, keep their
// level; klog.SetSlogLogger would pass warnings at level Info.
//
// A process calls Route once, before it uses Kubernetes' libraries, because klog does not protect
// its logger by a lock.
func Route(h slog.Handler) {
	klog.SetLoggerWithOptions(logr.FromSlogHandler(h), klog.ContextualLogger(true),
		klog.WriteKlogBuffer(func(line []byte) {
			level, text := parse(line)
			if ctx := context.Background(); h.Enabled(ctx, level) {
				// the log has no other place for errors
				_ = h.Handle(ctx, slog.NewRecord(time.Now(), level, text, 0))
			}
		}))
}

// levels are the first letters of klog's lines: Info, Warning, Error and Fatal.
var levels = map[byte]slog.Level{'I': slog.LevelInfo, 'W': slog.LevelWarn, 'E': slog.LevelError, 'F': slog.LevelError}

// parse splits a line of klog, such as "W1126 04:19:15.378532 131 file.go:55] text", into its level
// and its text. A line without such a header has level Info.
func parse(line []byte) (slog.Level, string) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) > 0 {
		if level, ok := levels[line[0]]; ok {
			if _, text, ok := bytes.Cut(line, []byte("] ")); ok {
				return level, string(text)
			}
		}
	}
	return slog.LevelInfo, string(line)
}

// Warnings returns a handler that passes warnings and errors to h and drops all other records.
func Warnings(h slog.Handler) slog.Handler { return warnings{h} }

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Warnings(w.Handler.WithAttrs(attrs))
}
func (w warnings) WithGroup(name string) slog.Handler { return Warnings(w.Handler.WithGroup(name)) }
