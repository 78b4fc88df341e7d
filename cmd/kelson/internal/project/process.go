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
	"time"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/operator/trace"
)

// Listener receives the output and the reconciles of an operator. Its methods are called
// concurrently.
type Listener interface {
	// Output returns a writer for the output of subject.
	Output(subject string) io.WriteCloser
	// Reconcile receives the record of a finished reconcile.
	Reconcile(trace.LineRecord)
}

// TraceSuffix is appended to the name of a kubeconfig to get the file of the operator's trace.
const TraceSuffix = ".trace"

// maxTrace is the size in bytes above which Run deletes the trace of earlier runs.
const maxTrace = 32 << 20

// stopGrace is how long an operator may take to exit after SIGTERM.
const stopGrace = 10 * time.Second

// Process is a running operator.
type Process struct {
	group *child.Group
	ended chan error
	done  chan struct{}
}

// Run starts the operator's binary against the cluster of a kubeconfig. env is added to the
// environment of this process. The caller must call Stop.
func (p *Project) Run(binary, kubeconfig string, listener Listener, env ...string) (*Process, error) {
	traceReader, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	if info, err := os.Stat(kubeconfig + TraceSuffix); err == nil && info.Size() > maxTrace {
		_ = os.Remove(kubeconfig + TraceSuffix)
	}
	cmd := exec.Command(binary, p.Args...)
	cmd.Dir = p.Dir
	number, err := child.Pass(cmd, write)
	if err != nil {
		traceReader.Close()
		return nil, fmt.Errorf("run %s: %w", p.Role(), err)
	}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, trace.Env+"=fd:"+number+",file:"+kubeconfig+TraceSuffix)
	cmd.Env = append(cmd.Env, env...)
	output := listener.Output(p.Role())
	cmd.Stdout, cmd.Stderr = output, output
	// A group: Ctrl-C reaches only this process, which stops the operator before the control plane.
	group, err := child.Start(cmd)
	if err != nil {
		traceReader.Close()
		return nil, fmt.Errorf("run %s: %w", p.Role(), err)
	}
	process := &Process{group: group, ended: make(chan error, 1), done: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer traceReader.Close()
		for lines := bufio.NewReader(traceReader); ; {
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
		err := group.Wait()
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

// Ended returns a channel that receives the operator's exit status once, always as an error.
func (p *Process) Ended() <-chan error { return p.ended }

// Done returns a channel that is closed when the operator has exited and the listener has received
// all of its output.
func (p *Process) Done() <-chan struct{} { return p.done }

// HasEnded reports whether the channel of Done is closed.
func (p *Process) HasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop sends SIGTERM to the operator, and SIGKILL if it does not exit in time. It returns when the
// channel of Done is closed.
func (p *Process) Stop() {
	_ = p.group.Terminate()
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = p.group.Kill()
		<-p.done
	}
}
