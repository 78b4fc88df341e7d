package exit

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// OnSignal returns a context that ends with the first of the signals. The second one ends the
// process. Signals that the process ignored at its start count too: shells start the background
// jobs of scripts with SIGINT ignored.
func OnSignal(signals ...os.Signal) context.Context {
	received := make(chan os.Signal, 2)
	signal.Notify(received, signals...)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-received
		cancel()
		code := 1
		if number, ok := (<-received).(syscall.Signal); ok {
			code = 128 + int(number) // as in a shell
		}
		os.Exit(code)
	}()
	return ctx
}
