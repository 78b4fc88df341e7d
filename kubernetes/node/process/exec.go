//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	utilexec "k8s.io/utils/exec"

	"kelson.dev/kubernetes/node"
)

var (
	_ node.Executor = (*container)(nil)
	_ node.Attacher = (*container)(nil)
	_ node.Dialer   = (*sandbox)(nil)
)

// Exec runs a command with the container's directory and environment, in its own process group. The
// group is killed when ctx or the container ends.
func (c *container) Exec(ctx context.Context, command []string, s node.Streams) error {
	if len(command) == 0 {
		return errors.New("no command specified")
	}
	if c.launcher == nil {
		return fmt.Errorf("container %s has ended", c.id)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-ended:
		}
	}()
	cmd := exec.CommandContext(ctx, command[0])
	cmd.Err = nil // the launcher finds the program
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir, cmd.WaitDelay = "", slices.Clone(command), c.env, c.workingDir, drainTimeout
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var err error
	if s.TTY {
		err = runOnTerminal(c.launcher, cmd, s)
	} else {
		err = run(c.launcher, cmd, s)
	}
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kill the rest of the command's group
		c.launcher.end(cmd)
	}
	if cmd.ProcessState == nil {
		return err
	}
	if exit := exitOf(cmd.ProcessState); exit.Code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", exit.Code), Code: int(exit.Code)}
	}
	return nil
}

// run runs a command without a terminal.
func run(p launcher, cmd *exec.Cmd, s node.Streams) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
	if s.Stdin != nil {
		// Don't set cmd.Stdin, because Wait would wait until it ends.
		in, err := cmd.StdinPipe()
		if err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
		go func() {
			_, _ = io.Copy(in, s.Stdin) // ends when the client closes the stream
			in.Close()
		}()
	}
	name := cmd.Args[0]
	if err := p.start(cmd); err != nil {
		return notStarted(name, err)
	}
	return cmd.Wait()
}

// notStarted adds the command's name to an error that lacks it.
func notStarted(name string, err error) error {
	if early := (*startError)(nil); errors.As(err, &early) && !early.NoDir && !early.Exec {
		return err
	}
	return fmt.Errorf("run %q: %w", name, err)
}

// runOnTerminal runs a command as a session leader on its own terminal.
func runOnTerminal(p launcher, cmd *exec.Cmd, s node.Streams) error {
	name := cmd.Args[0]
	terminal, err := startOnTerminal(p, cmd)
	if err != nil {
		return notStarted(name, err)
	}
	output := terminalStreams(terminal, s)
	err = cmd.Wait()
	select {
	case <-output: // all output was read: no process has the terminal open
	case <-time.After(drainTimeout):
	}
	terminal.Close()
	return err
}

// terminalStreams connects a terminal to a client. output is closed when there is no more output.
func terminalStreams(terminal *os.File, s node.Streams) (output <-chan struct{}) {
	if s.Stdin != nil {
		go func() { _, _ = io.Copy(terminal, s.Stdin) }()
	}
	if s.Resize != nil {
		go resize(terminal, s.Resize)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out := s.Stdout
		if out == nil {
			out = io.Discard
		}
		if _, err := io.Copy(out, terminal); err != nil {
			// a client that has disconnected must not block the command
			_, _ = io.Copy(io.Discard, terminal)
		}
	}()
	return done
}

func resize(terminal *os.File, sizes <-chan node.Size) {
	for size := range sizes {
		if size.Width > 0 && size.Height > 0 {
			_ = pty.Setsize(terminal, &pty.Winsize{Cols: size.Width, Rows: size.Height})
		}
	}
}

// Attach copies the container's output to s and s.Stdin to its input.
func (c *container) Attach(ctx context.Context, s node.Streams) error {
	detach := c.outputs.attach(s)
	defer detach()
	if s.Resize != nil && c.terminal != nil {
		go resize(c.terminal, s.Resize)
	}
	if s.Stdin != nil && c.stdin != nil {
		go func() {
			_, _ = io.Copy(c.stdin, s.Stdin)
			if c.stdinOnce {
				c.stdin.Close()
			}
		}()
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	return nil
}

// outputs are the attached clients that receive the container's output. Earlier output is only in
// the log.
type outputs struct {
	mu        sync.Mutex
	followers map[*node.Streams]bool
}

func (o *outputs) attach(s node.Streams) (detach func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.followers == nil {
		o.followers = map[*node.Streams]bool{}
	}
	o.followers[&s] = true
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.followers, &s)
	}
}

// tee returns a writer that writes to the log and to the attached clients. It detaches clients to
// which it can't write.
func (o *outputs) tee(log io.Writer, writerOf func(*node.Streams) io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		o.mu.Lock()
		for s := range o.followers {
			if w := writerOf(s); w != nil {
				if _, err := w.Write(p); err != nil {
					delete(o.followers, s)
				}
			}
		}
		o.mu.Unlock()
		return log.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Dial connects to a port of this machine. The pod's processes may listen on all addresses, on the
// loopback address or on the pod's address.
func (s *sandbox) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err == nil || s.IP() == "127.0.0.1" {
		return conn, err
	}
	if other, otherErr := d.DialContext(ctx, "tcp", net.JoinHostPort(s.IP(), strconv.Itoa(int(port)))); otherErr == nil {
		return other, nil
	}
	return nil, err
}
