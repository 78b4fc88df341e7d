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

// Limits of a termination message, as in a kubelet: bytes of the file, and bytes and lines of the
// log.
const (
	messageBytes    = 4096
	messageLogBytes = 2048
	messageLogLines = 80
)

// container is a process group. Two goroutines copy its output and one waits for its end; all have
// ended when done is closed. Each attached client has another one.
type container struct {
	id       string
	started  time.Time
	launcher launcher // nil if an earlier agent started the container
	group    *cgroup  // nil: neither limits nor tracking
	limited  bool     // the system enforces limits
	// the container's directory; nil if an earlier agent started the container
	files  *os.Root
	log    *containerlog.Log // nil if it no longer exists
	done   chan struct{}
	detach func() bool
	ended  func() // called after the end of the first process and its group

	// For Exec and Attach.
	env        []string
	dir        string // HOME, unless the pod sets it
	workingDir string
	outputs    outputs
	stdin      io.WriteCloser // nil: no standard input
	stdinOnce  bool           // the first attached client closes stdin when it ends
	terminal   *os.File       // nil: no terminal

	mu     sync.Mutex
	cmd    *exec.Cmd // nil after its end, because its process id may be reused
	kill   *time.Timer
	killAt time.Time
	exit   node.Exit // set before done is closed
}

// start runs the command of spec in dir. files is an open root of dir. At its end, the container
// calls ended and closes p, group and files.
func start(path, dir string, p launcher, group *cgroup, limited bool, files *os.Root, spec node.ContainerSpec,
	log *containerlog.Log, ended func()) (*container, error) {
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
		log: log, done: make(chan struct{}), cmd: cmd, env: env, dir: dir, workingDir: workingDir,
		stdinOnce: spec.Container.StdinOnce,
		launcher:  p, group: group, limited: limited, files: files, ended: ended,
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

// begin starts the command on a terminal or on pipes, depending on the spec. It returns the files
// from which to read the output.
func (c *container) begin(spec node.ContainerSpec) ([]*os.File, error) {
	if spec.Container.TTY {
		terminal, err := startOnTerminal(c.launcher, c.cmd)
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
		err = c.launcher.start(c.cmd)
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

// endOfInput writes to a terminal. Close sends the end-of-file character.
type endOfInput struct{ terminal *os.File }

func (e endOfInput) Write(p []byte) (int, error) { return e.terminal.Write(p) }

func (e endOfInput) Close() error {
	_, err := e.terminal.Write([]byte{4})
	return err
}

// pipes creates the command's standard output and error, and returns their reading ends in that
// order.
func pipes(cmd *exec.Cmd) ([]*os.File, error) {
	out, outWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipes: %w", err)
	}
	errOut, errWriter, err := os.Pipe()
	if err != nil {
		out.Close()
		outWriter.Close()
		return nil, fmt.Errorf("create pipes: %w", err)
	}
	cmd.Stdout, cmd.Stderr = outWriter, errWriter
	return []*os.File{out, errOut}, nil
}

// wait copies the container's output and waits for its end.
func (c *container) wait(files []*os.File, spec *corev1.Container) {
	sources := sourcesOf(files)
	var copying sync.WaitGroup
	writers := []io.Writer{
		c.outputs.tee(c.log.Writer(containerlog.Stdout), func(s *node.Streams) io.Writer { return s.Stdout }),
		c.outputs.tee(c.log.Writer(containerlog.Stderr), func(s *node.Streams) io.Writer { return s.Stderr }),
	}
	for i, source := range sources {
		copying.Go(func() { _, _ = io.Copy(writers[i], source) })
	}
	_ = c.cmd.Wait() // the result is in ProcessState
	exit := exitOf(c.cmd.ProcessState)
	if exit.Code != 0 && c.group.outOfMemory() {
		exit.Reason = "OOMKilled"
	}

	c.mu.Lock()
	cmd := c.cmd
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kill the rest of the group
	c.cmd = nil
	if c.kill != nil {
		c.kill.Stop()
	}
	c.mu.Unlock()
	c.endStrays(cmd)

	for _, source := range sources {
		source.end()
	}
	c.outputs.end()
	copying.Wait()
	for _, source := range sources {
		source.Close()
	}
	c.log.Close()
	exit.Message = c.message(exit.Code, spec)
	c.launcher.close()
	c.group.close()
	c.files.Close()
	c.mu.Lock()
	c.exit = exit
	c.mu.Unlock()
	close(c.done)
}

// endStrays kills the processes that have left the container's process group. cmd is the command of
// the first process, which has ended.
func (c *container) endStrays(cmd *exec.Cmd) {
	c.group.kill()
	c.launcher.end(cmd)
	if !c.group.tracks() {
		endMarked(c.dir)
	}
	c.ended()
}

// exitOf converts the state of an ended process. After a signal, the code is 128 plus its number,
// as in a shell.
func exitOf(state *os.ProcessState) node.Exit {
	exit := node.Exit{FinishedAt: time.Now(), Code: int32(state.ExitCode())}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = int32(status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit
}

// message returns the termination message: the contents of the file or, after a failure, the end of
// the log if the policy allows that.
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

// read returns the beginning of a regular file in the container's directory, or "". It doesn't
// follow links out of the directory, because they could refer to any file of the machine, and
// doesn't read from pipes, because they might never end.
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

// errNoGroup is the error of a change that the control groups of a container do not allow.
var errNoGroup = errors.New("the container runs without the control group that this needs: it must be restarted")

// Resize implements [node.Resizer]. It does nothing where this process may not create control
// groups, because no limits are enforced there.
func (c *container) Resize(to corev1.ResourceRequirements) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil || !c.limited {
		return nil
	}
	return c.group.resize(shareOf(to))
}

func (c *container) ID() string            { return c.id }
func (c *container) StartedAt() time.Time  { return c.started }
func (c *container) Done() <-chan struct{} { return c.done }

func (c *container) Exit() node.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Stop sends a signal to the whole process group.
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
		c.killGroup()
		return
	}
	if c.kill == nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM)
	}
	c.killAt = at
	c.kill = time.AfterFunc(grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.cmd != nil {
			c.killGroup()
		}
	})
}

// killGroup kills the process group, and the first process, which may have moved to another group.
func (c *container) killGroup() {
	_ = c.cmd.Process.Kill()
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
}

func (c *container) Logs(ctx context.Context, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	if c.log == nil {
		return nil, fmt.Errorf("container %s: %w", c.id, node.ErrNoLogs)
	}
	return c.log.Read(ctx, containerlog.FromPodLogOptions(opts, time.Now())), nil
}
