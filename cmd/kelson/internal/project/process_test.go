package project

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/trace"
)

// TestMain also runs the operator of TestRun and the programs of TestInterrupt, in processes of
// their own.
func TestMain(m *testing.M) {
	if os.Getenv("TESTS") != "" {
		tests()
		return
	}
	if os.Getenv("KELSON_TEST") != "" {
		interruptedTwice()
		return
	}
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

// tests behaves like the go command, which ignores SIGINT and waits for its child, or like a test
// that cleans up.
func tests() {
	if os.Getenv("TESTS") == "go" {
		signal.Ignore(os.Interrupt)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "TESTS=test")
		child.Stdout = os.Stdout
		_ = child.Run()
		os.Exit(1)
	}
	if os.Getenv("TESTS") == "stubborn" {
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		fmt.Println("ready")
		go func() {
			<-interrupted
			fmt.Println("interrupted")
		}()
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Println("continued")
		return
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	fmt.Println("ready")
	fmt.Println("clean up after", <-interrupted)
}

// interruptedTwice behaves like kelson test. Its tests continue after the first signal, until their
// standard input ends.
func interruptedTwice() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTS=stubborn")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	_ = run(exit.OnSignal(os.Interrupt), cmd, (*child.Group).Interrupt)
}

// The second signal ends the tests too.
func TestSecondInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: Windows cannot send a signal to a process")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KELSON_TEST=1")
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	cmd.Stdout = write
	require.NoError(t, cmd.Start())
	write.Close() // so that read ends with the last process
	defer cmd.Process.Kill()
	lines := bufio.NewReader(read)
	for _, want := range []string{"ready\n", "interrupted\n"} {
		line, err := lines.ReadString('\n')
		require.Equalf(t, line, want, "%v", err)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
	}
	state, err := cmd.Process.Wait()
	if err != nil || state.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("%v, %v", state, err)
	}
	input.Close()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("the tests have continued: %q, %v", rest, err)
	}
}

// A canceled run of tests lasts until the tests have cleaned up.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTS=go")
	cmd.Stdout = write
	ran := make(chan error, 1)
	go func() {
		ran <- run(ctx, cmd, (*child.Group).Interrupt)
		_ = write.Close()
	}()
	lines := bufio.NewReader(read)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	cancel()
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "clean up after interrupt\n" {
		t.Errorf("%q %v", rest, err)
	}
	if err := <-ran; err != exit.Code(1) {
		t.Error(err)
	}
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
	require.NoError(t, err)
	select {
	case <-l.traced:
	case <-operator.Done():
		t.Fatal("the operator ended without a trace")
	}
	operator.Stop()
	err = <-operator.Ended()
	assert.Equalf(t, err.Error(), "exit status 0", "the operator ended with %v", err)
	if len(l.records) != 1 || l.records[0].Kind != "Welcome" || l.records[0].Name != "a" {
		t.Errorf("received %v", l.records)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
