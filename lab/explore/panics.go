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

// operatorKey is the context key of the *process of an operator.
type operatorKey struct{}

// operatorLog is the log of an operator. It drops all records except errors of reconciles, and
// panics of reconciles, from which controllers recover.
type operatorLog struct {
	process                     *process
	controller, namespace, name string
}

// Log returns a log for an operator that a Scenario.Operator runs with ctx. The explorer learns
// from it which reconciles return errors (O3). Operators on controller-runtime set it in their
// options:
//
//	ctrl.Options{Logger: logr.FromSlogHandler(explore.Log(ctx).Handler())}
//
// Without it, the explorer does not notice such errors. Parts uses it.
func Log(ctx context.Context) *slog.Logger {
	p, ok := ctx.Value(operatorKey{}).(*process)
	if !ok {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(operatorLog{process: p})
}

// Enabled implements slog.Handler. The library logs conflicts as details.
func (operatorLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l operatorLog) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		if p := (*reconcile.PanicError)(nil); errors.As(err, &p) {
			l.process.operator.observed.panicked(p)
			return false
		} else if err != nil && l.controller != "" && l.name != "" && !reconcile.IsTerminal(err) {
			l.process.operator.failed(l.process, l.controller+" "+qualified(l.namespace, l.name), err.Error())
			return false
		}
		return true
	})
	return nil
}

// WithAttrs implements slog.Handler. The operator library and controller-runtime add the controller
// and object of a reconcile in this way.
func (l operatorLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		switch a.Key {
		case "controller":
			l.controller = a.Value.String()
		case "namespace":
			l.namespace = a.Value.String()
		case "name":
			l.name = a.Value.String()
		}
	}
	return l
}

// WithGroup implements slog.Handler.
func (l operatorLog) WithGroup(string) slog.Handler { return l }

// recovered reports panics to the observations of trials from which Kubernetes' libraries recover:
// controller-runtime recovers from panics of reconcilers. Their contexts do not identify the
// process that has panicked, so recovered assigns the panic to the running trial. If several trials
// run, it ignores the panic.
var recovered struct {
	once sync.Once
	mu   sync.Mutex
	runs map[*observed]bool
}

// watchPanics adds the observations to those of running trials, until the returned function is
// called.
func (o *observed) watchPanics() (stop func()) {
	recovered.once.Do(func() {
		recovered.runs = map[*observed]bool{}
		utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(_ context.Context, value any) {
			recovered.mu.Lock()
			defer recovered.mu.Unlock()
			for only := range recovered.runs {
				if len(recovered.runs) == 1 {
					only.panicked(&reconcile.PanicError{Value: value, Stack: debug.Stack()})
				}
			}
		})
	})
	recovered.mu.Lock()
	defer recovered.mu.Unlock()
	recovered.runs[o] = true
	return func() {
		recovered.mu.Lock()
		defer recovered.mu.Unlock()
		delete(recovered.runs, o)
	}
}

// guard calls the scenario's Operator. A panic becomes its error.
func (p *process) guard(ctx context.Context, operator func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Panicked(v)
		}
	}()
	return operator(context.WithValue(ctx, operatorKey{}, p))
}

// Panicked returns the error of an operator that has panicked with a value. It must be called while
// the stack is that of the panic: by a deferred function, after recover.
func Panicked(value any) error { return &reconcile.PanicError{Value: value, Stack: debug.Stack()} }

// panicked records a panic from which a controller has recovered.
func (o *observed) panicked(p *reconcile.PanicError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.panics = append(o.panics, panicDetail(p))
}

// panickedInLog records a panic that the log of a program reports.
func (o *observed) panickedInLog(detail string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.panics = append(o.panics, detail)
}

var (
	codeLine = regexp.MustCompile(`(?m)^\t(\S+:\d+)`)
	goroot   = regexp.MustCompile(`(^|/)src/runtime/`)
)

// panicDetail returns the value of a panic and where it happened.
func panicDetail(p *reconcile.PanicError) string {
	detail := fmt.Sprintf("panic: %v", p.Value)
	// The newest frames come first. The frames above the call of panic belong to the recovery.
	_, stack, found := strings.Cut(string(p.Stack), "\npanic(")
	if !found {
		return detail
	}
	return detail + placeIn(stack)
}

// placeIn returns " at " and the first place of a stack that is not in Go's runtime; "" for none.
func placeIn(stack string) string {
	for _, line := range codeLine.FindAllStringSubmatch(stack, -1) {
		if !goroot.MatchString(line[1]) {
			return " at " + line[1]
		}
	}
	return ""
}
