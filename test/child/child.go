// Package child runs servers as child processes that end with the program.
//
//	p, err := child.Start(dir, "bin/peers/etcd", args...)
//	defer p.Stop(10 * time.Second)
package child

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a child process. It keeps its output for error messages.
type Process struct {
	Path string
	ID   int
	// Done is closed when the process has ended.
	Done <-chan struct{}

	cmd *exec.Cmd
	log string
}

// Start starts a binary that runs until Stop or the end of this program. Its output goes to a file
// in dir.
func Start(dir, binary string, args ...string) (*Process, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(binary)+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	EndWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (go build -o bin/peers/ ./bench/peers/... makes the peers)", binary, err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	return &Process{Path: cmd.Path, ID: cmd.Process.Pid, Done: done, cmd: cmd, log: log.Name()}, nil
}

// Stop asks the process to end, and kills it after grace.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.Done
	}
}

// Await calls try until it succeeds, for at most patience. It ends early with an error if ctx or
// the process ends.
func (p *Process) Await(ctx context.Context, patience time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.Done:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.Path, err, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %v: %w\n%s", p.Path, patience, err, p.Output())
		}
	}
}

// CPU returns the processor time of the process, once it has ended.
func (p *Process) CPU() time.Duration {
	<-p.Done
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Output returns the end of the process's output.
func (p *Process) Output() string {
	output, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// FreePort returns a port of this machine on which no process listens.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// FreePorts returns n ports like FreePort.
func FreePorts(n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}
