package exit

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// OnSignal returns a context that ends with the first of the signals. The second one ends the
// process. Signals that the process ignored at its start count too: shells start the background
// jobs of scripts with SIGINT ignored.
func OnSignal(signals ...os.Signal) context.Context {
	received := make(chan os.Signal, 2)
	signal.Notify(received, signals...)
	last := &lastCalls{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), lastKey{}, last))
	go func() {
		<-received
		cancel()
		code := 1
		if number, ok := (<-received).(syscall.Signal); ok {
			code = 128 + int(number) // as in a shell
		}
		last.run()
		os.Exit(code)
	}()
	return ctx
}

type lastKey struct{}

// lastCalls holds the functions to call before the second signal ends the process.
type lastCalls struct {
	mu    sync.Mutex
	calls map[*func()]bool
}

func (l *lastCalls) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.calls {
		(*f)()
	}
}

// Last makes the second signal call f before it ends the process, until the caller calls remove.
// ctx is derived from OnSignal's; with other contexts, Last does nothing. f must return soon. It is
// called from another goroutine, and may be called at any time.
func Last(ctx context.Context, f func()) (remove func()) {
	l, ok := ctx.Value(lastKey{}).(*lastCalls)
	if !ok {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[*func()]bool{}
	}
	l.calls[&f] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, &f)
	}
}
