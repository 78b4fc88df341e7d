//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/containerlog"
)

// Bounds of a termination message, as a kubelet has them: a file's bytes, a log's lines and bytes.
const (
	messageBytes    = 4096
	messageLogBytes = 2048
	messageLogLines = 80
)

// drain is how long output is still read after the container has ended. Only a process that left the group can need it.
const drain = time.Second

// container is one process group. Two goroutines copy its output, one waits for its end; all are gone when done is closed.
type container struct {
	id      string
	started time.Time
	place   place             // nil for one of an earlier agent
	files   *os.Root          // its directory; nil for one of an earlier agent
	log     *containerlog.Log // nil when there is none left
	done    chan struct{}
	detach  func() bool

	// How further commands are run, and what an attachment needs.
	env        []string
	workingDir string
	outputs    outputs
	stdin      io.WriteCloser // nil: the container reads nothing
	stdinOnce  bool           // the first who feeds it also ends it
	terminal   *os.File       // nil: it has none

	mu     sync.Mutex
	cmd    *exec.Cmd // nil once it has ended: its process id may then be another's
	kill   *time.Timer
	killAt time.Time
	exit   node.Exit // set before done is closed
}

// start runs the command of spec in dir, which files is. The container owns place and files then.
func start(path, dir string, p place, files *os.Root, spec node.ContainerSpec, log *containerlog.Log) (*container, error) {
	env := environ(path, dir, spec)
	workingDir := dir
	if w := spec.Container.WorkingDir; w != "" {
		workingDir = w
		if !filepath.IsAbs(w) {
			workingDir = filepath.Join(dir, w)
		}
	}
	cmd := &exec.Cmd{Args: append(append([]string(nil), spec.Command...), spec.Args...), Env: env, Dir: workingDir}
	c := &container{
		log: log, done: make(chan struct{}), cmd: cmd, env: env, workingDir: workingDir, stdinOnce: spec.Container.StdinOnce,
		place: p, files: files,
	}
	sources, err := c.begin(spec)
	var early *startError
	switch {
	case errors.As(err, &early) && early.NoDir:
		return nil, fmt.Errorf("container %q: %w", spec.Container.Name, err)
	case early != nil && !early.Exec:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("run container %q: %w", spec.Container.Name, err)
	}
	c.id, c.started = fmt.Sprintf(idFormat, cmd.Process.Pid)+string(spec.Pod.UID), time.Now()
	go c.wait(sources, spec.Container)
	return c, nil
}

// begin starts the command on a terminal, or on pipes, as the spec wants it. The result is what it prints.
func (c *container) begin(spec node.ContainerSpec) ([]*os.File, error) {
	if spec.Container.TTY {
		terminal, err := startOnTerminal(c.place, c.cmd)
		if err != nil {
			return nil, err
		}
		c.terminal = terminal
		if spec.Container.Stdin {
			c.stdin = endOfInput{terminal}
		}
		return []*os.File{terminal}, nil
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	sources, err := pipes(c.cmd)
	if err != nil {
		return nil, err
	}
	if spec.Container.Stdin {
		c.stdin, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.place.start(c.cmd)
	}
	c.cmd.Stdout.(*os.File).Close()
	c.cmd.Stderr.(*os.File).Close()
	if err != nil {
		for _, source := range sources {
			source.Close()
		}
		return nil, err
	}
	return sources, nil
}

// endOfInput is a terminal that is closed for reading by the character that says so.
type endOfInput struct{ terminal *os.File }

func (e endOfInput) Write(p []byte) (int, error) { return e.terminal.Write(p) }

func (e endOfInput) Close() error {
	_, err := e.terminal.Write([]byte{4})
	return err
}

// pipes makes the command's standard output and error; their reading ends are the result, in that order.
func pipes(cmd *exec.Cmd) ([]*os.File, error) {
	out, outWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	errOut, errWriter, err := os.Pipe()
	if err != nil {
		out.Close()
		outWriter.Close()
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	cmd.Stdout, cmd.Stderr = outWriter, errWriter
	return []*os.File{out, errOut}, nil
}

// wait sees the container through to its end.
func (c *container) wait(sources []*os.File, spec *corev1.Container) {
	var copying sync.WaitGroup
	writers := []io.Writer{
		c.outputs.tee(c.log.Writer(containerlog.Stdout), func(s *node.Streams) io.Writer { return s.Stdout }),
		c.outputs.tee(c.log.Writer(containerlog.Stderr), func(s *node.Streams) io.Writer { return s.Stderr }),
	}
	for i, source := range sources {
		copying.Go(func() {
			// A log that can't be written any more must not block the container: its output is thrown away then.
			if _, err := io.Copy(writers[i], source); err != nil {
				io.Copy(io.Discard, source)
			}
		})
	}
	c.cmd.Wait() // what it returns is in ProcessState
	exit := exitOf(c.cmd.ProcessState)

	c.mu.Lock()
	syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // what the first process left behind
	c.cmd = nil
	if c.kill != nil {
		c.kill.Stop()
	}
	c.mu.Unlock()

	for _, source := range sources {
		source.SetReadDeadline(time.Now().Add(drain))
	}
	copying.Wait()
	for _, source := range sources {
		source.Close()
	}
	c.log.Close()
	exit.Message = c.message(exit.Code, spec)
	c.place.close()
	c.files.Close()
	c.mu.Lock()
	c.exit = exit
	c.mu.Unlock()
	close(c.done)
}

// exitOf is how a process ended, as a shell tells it.
func exitOf(state *os.ProcessState) node.Exit {
	exit := node.Exit{FinishedAt: time.Now(), Code: int32(state.ExitCode())}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = int32(status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit
}

// message is the termination message: the file's, or the end of the log after a failure where the policy says so.
func (c *container) message(code int32, spec *corev1.Container) string {
	if path := strings.Trim(filepath.Clean("/"+spec.TerminationMessagePath), "/"); path != "" {
		if text := c.read(path, messageBytes); text != "" {
			return text
		}
	}
	if spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || code == 0 {
		return ""
	}
	lines := int64(messageLogLines)
	reader := c.log.Read(context.Background(), containerlog.Options{Tail: &lines})
	defer reader.Close()
	text, _ := io.ReadAll(reader)
	return string(bytes.ToValidUTF8(text[max(0, len(text)-messageLogBytes):], nil))
}

// read returns the beginning of a file that the container has written, if it is one in its directory: a link that leads out of it could be
// to any file of the machine, and a pipe would never end.
func (c *container) read(name string, most int64) string {
	file, err := c.files.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return ""
	}
	return string(text)
}

func (c *container) ID() string            { return c.id }
func (c *container) StartedAt() time.Time  { return c.started }
func (c *container) Done() <-chan struct{} { return c.done }

func (c *container) Exit() node.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Stop signals the whole group.
func (c *container) Stop(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return
	}
	at := time.Now().Add(grace)
	if c.kill != nil {
		if !at.Before(c.killAt) {
			return
		}
		c.kill.Stop()
	}
	if grace <= 0 {
		syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		return
	}
	if c.kill == nil {
		syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM)
	}
	c.killAt = at
	c.kill = time.AfterFunc(grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.cmd != nil {
			syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
}

func (c *container) Logs(ctx context.Context, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	if c.log == nil {
		return nil, fmt.Errorf("container %s: %w", c.id, node.ErrNoLogs)
	}
	return c.log.Read(ctx, containerlog.FromPodLogOptions(opts, time.Now())), nil
}
