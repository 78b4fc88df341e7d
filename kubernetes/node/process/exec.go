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
	"reflect"
	"slices"
	"strconv"
	"sync"
	"syscall"

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
// group is killed when ctx or the container ends. Exec returns when the client has taken the output
// of the command, which is incomplete if ctx ends first.
func (c *container) Exec(ctx context.Context, command []string, s node.Streams) error {
	if len(command) == 0 {
		return errors.New("no command specified")
	}
	if c.launcher == nil {
		return fmt.Errorf("container %s has ended", c.id)
	}
	running, cancel := context.WithCancel(ctx)
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
	cmd := exec.CommandContext(running, command[0])
	cmd.Err = nil // the launcher finds the program
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir, cmd.WaitDelay = "", slices.Clone(command), c.env, c.workingDir, drainTimeout
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var err error
	if s.TTY {
		err = runOnTerminal(ctx, c.launcher, cmd, s)
	} else {
		err = run(ctx, c.launcher, cmd, s)
	}
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kill the rest of the command's group
		c.launcher.end(cmd)
	}
	if cmd.ProcessState == nil {
		return err
	}
	if exit := exitOf(cmd.ProcessState); exit.Code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", exit.Code),
			Code: int(exit.Code)}
	}
	return nil
}

// run runs a command without a terminal.
func run(ctx context.Context, p launcher, cmd *exec.Cmd, s node.Streams) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	files, err := pipes(cmd)
	if err != nil {
		return err
	}
	out, errs := cmd.Stdout.(*os.File), cmd.Stderr.(*os.File)
	if sameWriter(s.Stdout, s.Stderr) {
		// This keeps the order of the output, and calls the writer from one goroutine.
		cmd.Stderr = cmd.Stdout
	}
	if s.Stdin != nil {
		// Don't set cmd.Stdin, because Wait would wait until it ends.
		in, stdinErr := cmd.StdinPipe()
		if err = stdinErr; err == nil {
			go func() {
				_, _ = io.Copy(in, s.Stdin) // ends when the client closes the stream
				in.Close()
			}()
		}
	}
	name := cmd.Args[0]
	if err == nil {
		if err = p.start(cmd); err != nil {
			err = notStarted(name, err)
		}
	}
	out.Close()
	errs.Close()
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return err
	}
	sources := sourcesOf(files)
	var copying sync.WaitGroup
	for i, to := range []io.Writer{s.Stdout, s.Stderr} {
		copying.Go(func() {
			defer sources[i].Close() // writes of the command fail if those to the client do
			if to == nil {
				to = io.Discard
			}
			_, _ = io.Copy(to, sources[i])
		})
	}
	err = cmd.Wait()
	finish(ctx, sources, &copying)
	return err
}

func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}

// notStarted adds the command's name to an error that lacks it.
func notStarted(name string, err error) error {
	if early := (*startError)(nil); errors.As(err, &early) && !early.NoDir && !early.Exec {
		return err
	}
	return fmt.Errorf("run %q: %w", name, err)
}

// runOnTerminal runs a command as a session leader on its own terminal.
func runOnTerminal(ctx context.Context, p launcher, cmd *exec.Cmd, s node.Streams) error {
	name := cmd.Args[0]
	terminal, err := startOnTerminal(p, cmd)
	if err != nil {
		return notStarted(name, err)
	}
	defer terminal.Close()
	if s.Stdin != nil {
		go func() { _, _ = io.Copy(terminal, s.Stdin) }()
	}
	if s.Resize != nil {
		go resize(terminal, s.Resize)
	}
	sources := sourcesOf([]*os.File{terminal})
	var copying sync.WaitGroup
	copying.Go(func() {
		out := s.Stdout
		if out == nil {
			out = io.Discard
		}
		if _, err := io.Copy(out, sources[0]); err != nil {
			// a client that has disconnected must not block the command
			_, _ = io.Copy(io.Discard, sources[0])
		}
	})
	err = cmd.Wait()
	finish(ctx, sources, &copying)
	return err
}

func resize(terminal *os.File, sizes <-chan node.Size) {
	for size := range sizes {
		if size.Width > 0 && size.Height > 0 {
			_ = pty.Setsize(terminal, &pty.Winsize{Cols: size.Width, Rows: size.Height})
		}
	}
}

// Attach copies the container's output to s and s.Stdin to its input. It returns when the client
// has taken the output of an ended container, when the client can't be written to, or when ctx
// ends.
func (c *container) Attach(ctx context.Context, s node.Streams) error {
	f := c.outputs.attach(s)
	defer c.outputs.detach(f)
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
		f.complete()
	case <-f.done:
	case <-ctx.Done():
		return nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil
	}
	return f.failure()
}

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
