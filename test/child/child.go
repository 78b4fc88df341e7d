// Package child runs the servers that are compared, each in a process that ends with the program.
//
//	p, err := child.Start(dir, "bin/peers/etcd", args...)
//	defer p.Stop(10 * time.Second)
package child

import (
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

// Process is a server. Its output is kept for when it fails.
type Process struct {
	Path string
	ID   int
	// Done is closed when it has ended.
	Done <-chan struct{}

	cmd *exec.Cmd
	log string
}

// Start runs a binary until Stop, or until this program ends. Its output goes to a file in dir.
func Start(dir, binary string, args ...string) (*Process, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(binary)+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // none outlives this program
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (go build -o bin/peers/ ./bench/peers/... makes the peers)", binary, err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	return &Process{Path: cmd.Path, ID: cmd.Process.Pid, Done: done, cmd: cmd, log: log.Name()}, nil
}

// Stop ends it, in order if that takes no longer than grace.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.Done
	}
}

// Output is the end of what it said.
func (p *Process) Output() string {
	output, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// FreePort is a port of this machine that nobody listens at.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
