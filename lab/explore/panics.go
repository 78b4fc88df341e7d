package explore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

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

// recovered reports panics to trials from which Kubernetes' libraries recover: controller-runtime
// recovers from panics of reconcilers. Their contexts do not say which process has panicked, so the
// panic belongs to the trial that runs. If several run, it is not known.
var recovered struct {
	once   sync.Once
	mu     sync.Mutex
	trials map[*trial]bool
}

// watchPanics adds the trial to those that may panic, until the returned function is called.
func (t *trial) watchPanics() (stop func()) {
	recovered.once.Do(func() {
		recovered.trials = map[*trial]bool{}
		utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(_ context.Context, value any) {
			recovered.mu.Lock()
			defer recovered.mu.Unlock()
			for only := range recovered.trials {
				if len(recovered.trials) == 1 {
					only.panicked(&reconcile.PanicError{Value: value, Stack: debug.Stack()})
				}
			}
		})
	})
	recovered.mu.Lock()
	defer recovered.mu.Unlock()
	recovered.trials[t] = true
	return func() {
		recovered.mu.Lock()
		defer recovered.mu.Unlock()
		delete(recovered.trials, t)
	}
}

// guard calls the scenario's Operator. A panic becomes its error.
func (p *process) guard(ctx context.Context, operator func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Panicked(v)
		}
	}()
	return operator(context.WithValue(ctx, panicsKey{}, func(e *reconcile.PanicError) { p.trial.panicked(e) }))
}

// Panicked returns the error of an operator that has panicked with a value. It must be called while
// the stack is that of the panic: by a deferred function, after recover.
func Panicked(value any) error { return &reconcile.PanicError{Value: value, Stack: debug.Stack()} }

// panicked notes a panic from which a controller has recovered.
func (t *trial) panicked(p *reconcile.PanicError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.panics = append(t.panics, panicDetail(p))
}

// panickedInLog notes a panic that the log of a Binary reports.
func (t *trial) panickedInLog(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.panics = append(t.panics, line)
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
