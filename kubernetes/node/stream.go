package node

import (
	"context"
	"fmt"
	"io"
	"net"

	corev1 "k8s.io/api/core/v1"
)

// Streams are the ends of a command that runs in a container, or of an attachment to one. What was not asked for is nil.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer // with TTY all output is in Stdout
	TTY            bool
	Resize         <-chan Size // of the terminal; closed when the client is gone
}

// Size is that of a terminal, in characters.
type Size struct{ Width, Height uint16 }

// Executor is a Container that can run further commands.
type Executor interface {
	// Exec runs a command beside the container's own, with the container's environment and directory, and returns when it has ended: nil
	// for exit code 0, a k8s.io/utils/exec.CodeExitError for another. When ctx or the container ends, so does the command.
	Exec(ctx context.Context, command []string, s Streams) error
}

// Attacher is a Container whose own streams can be followed and fed.
type Attacher interface {
	// Attach copies what the container prints from now on, and gives it what it reads if its spec has stdin. It returns when the
	// container has ended, or ctx does.
	Attach(ctx context.Context, s Streams) error
}

// Dialer is a Sandbox with ports that can be reached.
type Dialer interface {
	// Dial connects to a TCP port of the pod.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
}

// Dial connects to a port of a pod of this node.
func (a *Agent) Dial(ctx context.Context, pod *corev1.Pod, port uint16) (net.Conn, error) {
	w := a.worker(pod.UID)
	if w == nil {
		return nil, fmt.Errorf("pod %q does not run on node %q", pod.Name, a.config.Name)
	}
	w.mu.Lock()
	sandbox := w.sandbox
	w.mu.Unlock()
	dialer, ok := sandbox.(Dialer)
	switch {
	case sandbox == nil:
		return nil, fmt.Errorf("pod %q has not started", pod.Name)
	case !ok:
		return nil, fmt.Errorf("the %s runtime runs nothing that listens on port %d", a.config.Runtime.Info().Name, port)
	}
	return dialer.Dial(ctx, port)
}

// runningContainer is a container of the pod, if it runs now.
func (w *worker) runningContainer(name string) (Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.life.find(name)
	switch {
	case r == nil || r.container == nil:
		return nil, fmt.Errorf("container not found (%q)", name)
	case r.state.Running == nil:
		return nil, fmt.Errorf("container %q is in CONTAINER_EXITED state", name)
	}
	return r.container, nil
}
