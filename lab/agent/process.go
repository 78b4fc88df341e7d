package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"

	"kelson.dev/lab/agent/inside"
)

// Config describes how processes of an operator run.
type Config struct {
	// Path is the file that [Program.Build] has written. Args are the operator's arguments, and Env
	// its environment.
	Path      string
	Args, Env []string
	// Dir is the folder in which the operator runs; "" means that of this process.
	Dir string
}

// settings are the variables of Go's runtime in the operator's process. Timers must be those of Go
// 1.23 and later, even if the operator's module requires an older version: older ones do not work
// in a bubble. The agent seeds the random numbers of math/rand. Goroutines must not be preempted at
// times that depend on the machine, and the order of goroutines is that of a single processor.
// Processes are short-lived, so they collect garbage only if they need much memory.
var settings = []string{"GODEBUG=asynctimerchan=0,asyncpreemptoff=1,randseednop=0", "GOMAXPROCS=1", "GOGC=off",
	"GOMEMLIMIT=384MiB", "GOTRACEBACK=all"}

// Process is a process of an operator that has started, and waits for its first batch before it
// calls the operator's main function. Its methods must not be called concurrently.
type Process struct {
	cmd     *exec.Cmd
	in, out *os.File
	log     *os.File
	logged  int64 // how much of log was read
	buffer  []byte
	read    []byte

	ended chan struct{}
	err   error // how the process has ended; valid after ended
	// turn is odd while this process waits for an answer, and stalled is why watchStalls has ended
	// the process.
	turn    atomic.Uint64
	stalled atomic.Pointer[string]
}

// Start starts a process.
func Start(c Config) (_ *Process, err error) {
	p := &Process{ended: make(chan struct{}), read: make([]byte, 64<<10)}
	var files []*os.File
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				files = append(files, r, w)
			}
		}
		return r, w
	}
	theirIn, out := pipe()
	in, theirOut := pipe()
	if err != nil {
		return nil, err
	}
	// Output goes to a file, because a pipe could be full while this process waits for the other.
	if p.log, err = os.CreateTemp("", "kelson-operator-"); err != nil {
		return nil, err
	}
	files = append(files, p.log)
	if err := os.Remove(p.log.Name()); err != nil {
		return nil, err
	}
	p.in, p.out = in, out
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Dir, p.cmd.Env = c.Dir, append(append([]string{}, c.Env...), settings...)
	p.cmd.Env = append(p.cmd.Env, inside.PipesVariable+"=3,4")
	p.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := startCalm(p.cmd); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	theirIn.Close()
	theirOut.Close()
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	go p.watchStalls(allows(c.Env))
	return p, nil
}

// errEnded is returned if the process has ended.
var errEnded = errors.New("the process has ended")

// write writes encoded frames.
func (p *Process) write(data []byte) error {
	fd := handle(p.out.Fd())
	for len(data) > 0 {
		n, err := syscall.Write(fd, data)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return errEnded
		}
		data = data[n:]
	}
	return nil
}

// next reads a frame. Its content is valid until the next call. It waits in real time.
func (p *Process) next() (inside.Frame, error) {
	fd := handle(p.in.Fd())
	p.turn.Add(1)
	defer p.turn.Add(1)
	for {
		f, size, err := inside.NextFrame(p.buffer)
		if err != nil || size > 0 {
			p.buffer = p.buffer[size:]
			return f, err
		}
		n, err := syscall.Read(fd, p.read)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || n == 0:
			return inside.Frame{}, errEnded
		}
		p.buffer = append(append(make([]byte, 0, len(p.buffer)+n), p.buffer...), p.read[:n]...)
	}
}

// Output returns what the operator has written to its standard output and error since the last
// call.
func (p *Process) Output() []byte {
	info, err := p.log.Stat()
	if err != nil || info.Size() <= p.logged {
		return nil
	}
	data := make([]byte, info.Size()-p.logged)
	n, err := p.log.ReadAt(data, p.logged)
	if err != nil && err != io.EOF {
		return nil
	}
	p.logged += int64(n)
	return data[:n]
}

// Ended waits until the process has ended, and returns how.
func (p *Process) Ended() error {
	<-p.ended
	if p.err == nil {
		return errors.New("the process ended with exit code 0")
	}
	return fmt.Errorf("the process ended: %w", p.err)
}

// Stuck waits until the process has ended, and returns why the agent or this process has ended it:
// its virtual time could not pass. It returns "" if it has ended otherwise. Then the end of the
// output has the stacks of the goroutines for which it waited.
func (p *Process) Stuck() string {
	<-p.ended
	if reason := p.stalled.Load(); reason != nil {
		return *reason
	}
	if p.cmd.ProcessState != nil && p.cmd.ProcessState.ExitCode() == inside.StuckCode {
		return inside.StandsStill
	}
	return ""
}

// Interrupt makes the process end, from any goroutine. An Exchange then returns an error.
func (p *Process) Interrupt() { _ = p.cmd.Process.Kill() } // an error means that it has ended

// Kill kills the process, and closes its files. It does not wait until the process has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	p.in.Close()
	p.out.Close()
	p.log.Close()
}

// Pool starts processes of an operator in advance, because an operator's start takes much longer
// than most of its runs.
type Pool struct {
	config Config
	ready  chan started
	cancel context.CancelFunc
	all    sync.WaitGroup
}

type started struct {
	process *Process
	err     error
}

// NewPool returns a pool that keeps n processes ready.
func NewPool(c Config, n int) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	pool := &Pool{config: c, ready: make(chan started, max(n-1, 0)), cancel: cancel}
	pool.all.Go(func() {
		for {
			p, err := Start(c)
			select {
			case pool.ready <- started{p, err}:
			case <-ctx.Done():
				if err == nil {
					p.Kill()
				}
				return
			}
		}
	})
	return pool
}

// Get returns a process that has started. In a bubble, time stands still meanwhile.
func (pool *Pool) Get() (*Process, error) {
	s := <-pool.ready
	return s.process, s.err
}

// Close kills the processes that were not returned.
func (pool *Pool) Close() {
	pool.cancel()
	pool.all.Wait()
	for {
		select {
		case s := <-pool.ready:
			if s.err == nil {
				s.process.Kill()
			}
		default:
			return
		}
	}
}

// Kubeconfig is the content of the kubeconfig of an operator.
const Kubeconfig = `apiVersion: v1
kind: Config
current-context: kelson
clusters: [{name: kelson, cluster: {server: "http://` + inside.Host + `"}}]
users: [{name: kelson, user: {}}]
contexts: [{name: kelson, context: {cluster: kelson, user: kelson, namespace: default}}]
`
