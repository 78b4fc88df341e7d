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
)

// side is a process that does a task.
type side struct {
	cmd     *exec.Cmd
	out     *bufio.Reader
	started time.Time
}

// begun counts the processes whose profile is asked for.
var begun int

// begin starts ours or theirs, from an executable that is in memory.
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

// load reads an executable, so that no clock counts what the disk takes to bring it: a kernel drops what was not used for a while.
func load(executable string) error {
	f, err := os.Open(executable)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// waitReady waits for the side to say that it is.
func (p *side) waitReady() error {
	line, err := p.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != "ready" {
		err = fmt.Errorf("it said %q", line)
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

// terminate asks the side to end, and makes it if it does not.
func (p *side) terminate() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
}

// resident is the bytes resident now.
func (p *side) resident() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb float64
			_, _ = fmt.Sscan(rest, &kb)
			return kb * 1024
		}
	}
	return 0
}

// do does a task from beginning to end.
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
	time.Sleep(time.Second) // for the server to be at rest again
	return f, err
}
