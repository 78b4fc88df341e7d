package project

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"kelson.dev/operator/trace"
)

// TestMain also runs the operator of TestRun, in a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("OPERATOR") == "" {
		m.Run()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out, err := trace.Open(os.Getenv(trace.Env))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("started")
	fmt.Fprintln(out, `{"id": 1, "kind": "Welcome", "name": "a"}`)
	<-ctx.Done()
	out.Close()
}

type listener struct {
	mu      sync.Mutex
	records []trace.LineRecord
	traced  chan struct{} // closed with the first record
}

func (l *listener) Output(string) io.WriteCloser { return discard{} }

func (l *listener) Reconcile(r trace.LineRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	if len(l.records) == 1 {
		close(l.traced)
	}
}

func TestRun(t *testing.T) {
	l := &listener{traced: make(chan struct{})}
	p := &Project{Dir: t.TempDir()}
	operator, err := p.Run(os.Args[0], filepath.Join(p.Dir, "kubeconfig"), l, "OPERATOR=1")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.traced:
	case <-operator.Done():
		t.Fatal("the operator ended without a trace")
	}
	operator.Stop()
	if err := <-operator.Ended(); err.Error() != "exit status 0" {
		t.Errorf("the operator ended with %v", err)
	}
	if len(l.records) != 1 || l.records[0].Kind != "Welcome" || l.records[0].Name != "a" {
		t.Errorf("received %v", l.records)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
