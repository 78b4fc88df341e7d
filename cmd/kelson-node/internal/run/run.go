//go:build linux

// Package run supervises the processes of a node.
package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a program that Run keeps running.
type Process struct {
	Name string
	Path string
	Args []string
	Env  []string // in addition to this process's
	// Log is the file to which the output is appended.
	Log string
}

const (
	// steady is how long a process must have run for its next start to be immediate.
	steady = 10 * time.Second
	// maxDelay is the longest pause between two starts.
	maxDelay = 10 * time.Second
	// stopWithin is how long a process may take to end.
	stopWithin = 15 * time.Second
)

// Run runs the process until ctx ends, and starts it again whenever it exits. The process ends when
// this one does, even if this one is killed.
func (p Process) Run(ctx context.Context, log *slog.Logger) error {
	// The kernel sends Pdeathsig when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	delay := time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		err := p.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if delay = min(max(2*delay, 500*time.Millisecond), maxDelay); time.Since(began) > steady {
			delay = 0
		}
		log.Warn("a process ended; restarting it", "process", p.Name, "err", err, "in", delay, "log", p.Log)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
	return nil
}

func (p Process) once(ctx context.Context) error {
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWithin
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(p.Log))
	}
	return errors.New("exit status 0")
}

// lastLine returns the end of the last line of a file that is not empty, which usually is the
// reason why a process ended.
func lastLine(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 1000
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-most), io.SeekStart)
	}
	content, _ := io.ReadAll(f)
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(lines[len(lines)-1])
}
