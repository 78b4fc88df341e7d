package node

import (
	"context"
	"fmt"
	"io"
	"net"

	corev1 "k8s.io/api/core/v1"
)

// Streams are the streams of a command in a container, or of an attachment. Streams that the client
// did not request are nil.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer // with TTY, all output goes to Stdout
	TTY            bool
	Resize         <-chan Size // terminal sizes; closed when the client disconnects
}

// Size is the size of a terminal, in characters.
type Size struct{ Width, Height uint16 }

// Executor is a Container that can run additional commands.
type Executor interface {
	// Exec runs a command with the container's environment and working directory. It returns when
	// the command has ended: nil for exit code 0, and a k8s.io/utils/exec.CodeExitError otherwise.
	// When ctx or the container ends, Exec ends the command.
	Exec(ctx context.Context, command []string, s Streams) error
}

// Attacher is a Container that clients can attach to.
type Attacher interface {
	// Attach copies the container's further output, and passes Stdin to the container if its spec
	// has stdin. It returns when the container or ctx ends.
	Attach(ctx context.Context, s Streams) error
}

// Dialer is a Sandbox with reachable ports.
type Dialer interface {
	// Dial connects to a TCP port of the pod.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
}

// Dial connects to a TCP port of a pod on this node.
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
		return nil, fmt.Errorf("the %s runtime runs nothing that listens on port %d", a.config.Runtime.Info().Name,
			port)
	}
	return dialer.Dial(ctx, port)
}

// runningContainer returns a container of the pod if it is running.
func (w *worker) runningContainer(name string) (Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.lifecycle.find(name)
	switch {
	case r == nil || r.container == nil:
		return nil, fmt.Errorf("container not found (%q)", name)
	case r.state.Running == nil:
		return nil, fmt.Errorf("container %q is in CONTAINER_EXITED state", name)
	}
	return r.container, nil
}
