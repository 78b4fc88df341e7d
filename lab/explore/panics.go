package explore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"strings"

	"kelson.dev/operator/reconcile"
)

// panicsKey is the context key of a function that receives the panics from which an operator
// recovers.
type panicsKey struct{}

// panicLog is the log of an operator's parts. It drops every record but those of panics in
// reconcilers, from which controllers recover.
type panicLog struct{ panicked func(*reconcile.PanicError) }

func newPanicLog(ctx context.Context) *slog.Logger {
	panicked, ok := ctx.Value(panicsKey{}).(func(*reconcile.PanicError))
	if !ok {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(panicLog{panicked})
}

func (panicLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle implements slog.Handler.
func (l panicLog) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		if p := (*reconcile.PanicError)(nil); errors.As(err, &p) {
			l.panicked(p)
			return false
		}
		return true
	})
	return nil
}

func (l panicLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l panicLog) WithGroup(string) slog.Handler      { return l }

// guard calls the scenario's Operator. A panic becomes its error.
func (p *process) guard(ctx context.Context, operator func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &reconcile.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return operator(context.WithValue(ctx, panicsKey{}, func(e *reconcile.PanicError) { p.trial.panicked(e) }))
}

// panicked notes a panic from which a controller has recovered.
func (t *trial) panicked(p *reconcile.PanicError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.panics = append(t.panics, panicDetail(p))
}

var (
	codeLine = regexp.MustCompile(`(?m)^\t(\S+:\d+)`)
	goroot   = regexp.MustCompile(`(^|/)src/runtime/`)
)

// panicDetail returns the value of a panic and where it happened.
func panicDetail(p *reconcile.PanicError) string {
	detail := fmt.Sprintf("panic: %v", p.Value)
	// The newest frames come first. Those before the call of panic belong to the recovery.
	_, stack, found := strings.Cut(string(p.Stack), "\npanic(")
	if !found {
		return detail
	}
	for _, line := range codeLine.FindAllStringSubmatch(stack, -1) {
		if !goroot.MatchString(line[1]) {
			return detail + " at " + line[1]
		}
	}
	return detail
}
