package project

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"kelson.dev/operator/trace"
)

// Listener is told what the operator prints and does.
type Listener interface {
	// Output returns a writer for what a subject prints.
	Output(subject string) io.WriteCloser
	Reconcile(trace.LineRecord)
}

// AccountSuffix is what an operator's account is called, behind the name of its kubeconfig.
const AccountSuffix = ".account"

// maxAccount is how long an account may be before it is begun anew.
const maxAccount = 32 << 20

// stopGrace is how long an operator may take to end.
const stopGrace = 10 * time.Second

// Process is a running operator.
type Process struct {
	cmd   *exec.Cmd
	ended chan error
	done  chan struct{}
}

// Run starts the operator's binary against the cluster of a kubeconfig, with env beside this process's own environment.
func (p *Project) Run(binary, kubeconfig string, listener Listener, env ...string) (*Process, error) {
	account, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	if info, err := os.Stat(kubeconfig + AccountSuffix); err == nil && info.Size() > maxAccount {
		_ = os.Remove(kubeconfig + AccountSuffix)
	}
	cmd := exec.Command(binary, p.Args...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, trace.Env+"=fd:3,file:"+kubeconfig+AccountSuffix)
	cmd.Env = append(cmd.Env, env...)
	cmd.ExtraFiles = []*os.File{write}
	output := listener.Output("operator")
	cmd.Stdout, cmd.Stderr = output, output
	// A group of its own: Ctrl-C reaches this process, which ends the operator before the control plane.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		account.Close()
		return nil, fmt.Errorf("run operator: %w", err)
	}
	process := &Process{cmd: cmd, ended: make(chan error, 1), done: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer account.Close()
		for lines := bufio.NewReader(account); ; {
			line, err := lines.ReadBytes('\n')
			var record trace.LineRecord
			if err == nil && json.Unmarshal(line, &record) == nil {
				listener.Reconcile(record)
			}
			if err != nil {
				return
			}
		}
	})
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		process.ended <- err
		reading.Wait()
		_ = output.Close()
		close(process.done)
	}()
	return process, nil
}

// Ended gives the operator's exit, once.
func (p *Process) Ended() <-chan error { return p.ended }

// Done is closed when the operator has ended and all that it said is told.
func (p *Process) Done() <-chan struct{} { return p.done }

// HasEnded says whether it has.
func (p *Process) HasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop ends the operator and waits until it has ended.
func (p *Process) Stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}
