package node

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Runtime runs containers for an agent. Packages simulated and process implement it; the Container Runtime Interface maps on it
// one to one (RunPodSandbox, CreateContainer and StartContainer, StopContainer, RemovePodSandbox).
//
// Everything a runtime hands out is safe for concurrent use. The pods, containers and specs it is given are shared: it must not
// change them.
type Runtime interface {
	Info() Info
	// Sandbox makes what the containers of a pod share: its address, its directories. It may block. A pod has at most one sandbox
	// at a time; a pod whose status has an address already keeps that address where the runtime can.
	//
	// ctx bounds the life of the sandbox and of its containers, not only this call: when it ends, a runtime ends what must not
	// outlive the agent, and lets go of the rest. An error is shown to the user in an event and retried later.
	Sandbox(ctx context.Context, pod *corev1.Pod) (Sandbox, error)
}

// Info describes a runtime.
type Info struct {
	// Name and Version are reported as the node's containerRuntimeVersion, "name://version". Name is also the scheme of container ids.
	Name, Version string
	// Capacity is what a node with this runtime offers where nothing else is configured.
	Capacity corev1.ResourceList
}

// Sandbox is the place of one pod's containers.
type Sandbox interface {
	// IP is the pod's address.
	IP() string
	// Start makes and starts a container and returns when it runs; pulling an image belongs to it, so it may block for long.
	// An error is the container's failure to start (exit code 128, reason StartError): its text is what the user reads.
	Start(ctx context.Context, spec ContainerSpec) (Container, error)
	// Adopt returns a container that an earlier agent started, as status last described it. A container that is gone is returned
	// too: ended, with an Exit that says so.
	Adopt(ctx context.Context, spec ContainerSpec, status corev1.ContainerStatus) Container
	// Remove ends what still runs at once and frees everything, logs included. It waits until that is done.
	Remove() error
}

// ContainerSpec is one container to start.
type ContainerSpec struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// Attempt counts the starts of this container in this pod, from 0.
	Attempt int32
	// Env is the environment with every reference resolved, no name twice.
	Env []corev1.EnvVar
	// Command and Args are the container's, with $(NAME) expanded.
	Command, Args []string
	// Files gives what the container finds at AccountPath. It may block. A runtime without files need not ask; nil: there are none.
	Files func() ([]File, error)
	// Event, when not nil, tells the user something about the container, such as the pull of its image. It may block.
	Event func(eventType, reason, message string)
}

// Container is one started container.
type Container interface {
	// ID is unique, "runtime://id".
	ID() string
	StartedAt() time.Time
	// Done is closed when the container has ended, with everything that belonged to it. Its log is complete then.
	Done() <-chan struct{}
	// Exit tells how it ended; it may be asked only after Done.
	Exit() Exit
	// Stop asks the container to end (SIGTERM) and ends it by force (SIGKILL) when the grace is over. It does not wait.
	// A later call can only shorten the time that is left. Stopping an ended container does nothing.
	Stop(grace time.Duration)
	// Logs reads what the container printed, by the fields of opts that choose lines (its Container and Previous are settled by the
	// caller). With Follow it ends when the container does, when ctx ends, or when the reader is closed. The caller closes it.
	Logs(ctx context.Context, opts *corev1.PodLogOptions) (io.ReadCloser, error)
}

// Exit is how a container ended.
type Exit struct {
	Code int32
	// Signal is the number of the signal that ended it, or 0; Code is 128 plus that number then.
	Signal int32
	// Reason is "Completed" for Code 0 and "Error" for others when it is empty.
	Reason string
	// Message is the container's termination message, or why it could not run.
	Message    string
	FinishedAt time.Time
}

// Gone is the exit of a container that can't be found any more, in a kubelet's words.
func Gone(at time.Time) Exit {
	return Exit{Code: 137, Reason: "ContainerStatusUnknown", FinishedAt: at,
		Message: "The container could not be located when the pod was terminated"}
}

// ErrNoLogs is returned by Container.Logs when there is nothing left to read from.
var ErrNoLogs = errors.New("the container's log is gone")
