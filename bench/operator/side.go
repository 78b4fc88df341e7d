package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kelson.dev/bench/operator/sample"
	"kelson.dev/test/child"
)

// side is a process that runs a task.
type side struct {
	cmd     *exec.Cmd
	out     *bufio.Reader
	started time.Time
}

// begun counts the processes to profile.
var begun int

// begin starts ours or theirs, after reading the executable into memory.
func begin(which, task string, s *server, args ...string) (*side, error) {
	args = append([]string{"-task", task}, args...)
	if s != nil {
		args = append(args, "-server", s.kubeconfig)
	}
	if *profile != "" && which == "ours" {
		begun++
		args = append(args, "-profile", filepath.Join(*profile, fmt.Sprintf("%d-%s", begun, task)))
	}
	executable := filepath.Join(*sides, which)
	if err := load(executable); err != nil {
		return nil, err
	}
	p := &side{cmd: exec.Command(executable, args...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out, p.started = bufio.NewReader(out), time.Now()
	return p, p.cmd.Start()
}

// load reads an executable into memory, because the kernel drops unused pages and the measurement
// must exclude reading from disk.
func load(executable string) error {
	f, err := os.Open(executable)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// waitReady waits until the side is ready.
func (p *side) waitReady() error {
	line, err := p.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != "ready" {
		err = fmt.Errorf("unexpected output %q", line)
	}
	return err
}

// end waits for the figures.
func (p *side) end() (sample.Figures, error) {
	data, err := io.ReadAll(p.out)
	if err := errors.Join(err, p.cmd.Wait()); err != nil {
		return sample.Figures{}, err
	}
	var f sample.Figures
	return f, json.Unmarshal(data, &f)
}

// terminate sends SIGTERM, and SIGKILL if the side does not end.
func (p *side) terminate() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
}

// resident returns the current resident bytes; 0 if the process has ended.
func (p *side) resident() float64 {
	u, err := child.UsageOf(p.cmd.Process.Pid)
	if err != nil {
		return 0
	}
	return float64(u.Resident)
}

// do runs a task from start to end.
func do(ctx context.Context, which, task string, s *server, args ...string) (sample.Figures, error) {
	p, err := begin(which, task, s, args...)
	if err != nil {
		return sample.Figures{}, err
	}
	stop := context.AfterFunc(ctx, p.terminate)
	defer stop()
	f, err := p.end()
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", which, task, err)
	}
	time.Sleep(time.Second) // until the server is idle again
	return f, err
}
