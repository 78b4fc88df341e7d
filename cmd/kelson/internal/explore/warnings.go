package explore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// warnings is a log that prints each warning once. Every run of an operator makes the same inputs,
// for which the API server returns the same warnings.
type warnings struct {
	to   io.Writer
	mu   sync.Mutex
	seen map[string]bool
}

// Enabled implements slog.Handler.
func (w *warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (w *warnings) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	return w.line(text)
}

// line prints a line that was not printed before.
func (w *warnings) line(text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] {
		return nil
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	_, err := fmt.Fprintln(w.to, text)
	return err
}

// WithAttrs implements slog.Handler. Attributes of a logger are not part of the text.
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *warnings) WithGroup(string) slog.Handler { return w }
