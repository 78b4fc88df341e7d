package node

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Runtime runs containers for an agent. Packages simulated and process implement it. Its calls
// correspond to those of the Container Runtime Interface (RunPodSandbox, CreateContainer and
// StartContainer, StopContainer, RemovePodSandbox).
//
// Everything that a runtime returns is safe for concurrent use. The pods, containers and specs that
// it receives are shared and must not be changed.
type Runtime interface {
	Info() Info
	// Sandbox creates what the containers of a pod share: its address and its directories. It may
	// block. A pod has at most one sandbox at a time. If the pod's status already has an address,
	// the sandbox keeps it if the runtime can.
	//
	// ctx bounds the lifetime of the sandbox and its containers, not only this call: when it ends,
	// the runtime ends what can't outlive the agent and releases the rest. The agent shows an error
	// in an event and retries later.
	Sandbox(ctx context.Context, pod *corev1.Pod) (Sandbox, error)
}

// Info describes a runtime.
type Info struct {
	// Name and Version are reported in the node's containerRuntimeVersion, "name://version". Name
	// is also the scheme of container ids.
	Name, Version string
	// Capacity is the default capacity of a node with this runtime.
	Capacity corev1.ResourceList
	// Executes is set if containers execute their commands. Only then does the agent mount volumes,
	// probe containers, run their lifecycle hooks and pass them the addresses of Services.
	Executes bool
}

// Sandbox is the environment of one pod's containers.
type Sandbox interface {
	// IP returns the pod's address.
	IP() string
	// Start creates and starts a container and returns when it runs. It may block for long, because
	// it includes pulling the image. An error means that the container failed to start (exit code
	// 128, reason StartError); its text is shown to users.
	Start(ctx context.Context, spec ContainerSpec) (Container, error)
	// Adopt returns a container that an earlier agent started; status is its last reported status.
	// If the container no longer exists, Adopt returns an ended one with the Exit Gone.
	Adopt(ctx context.Context, spec ContainerSpec, status corev1.ContainerStatus) Container
	// Remove kills all running containers and frees all resources, including logs. It returns when
	// that is done.
	Remove() error
}

// Mounter is a Sandbox whose containers can mount volumes.
type Mounter interface {
	// SetVolume creates a volume of the pod. For an existing one, it replaces the files, all at
	// once; running containers see the new files, except through mounts with a subPath. The agent
	// sets all volumes of a pod before it starts a container.
	SetVolume(v Volume) error
}

// Resizer is a Container whose resources can change while it runs.
type Resizer interface {
	// Resize sets the resources of the container. After an error, the former resources may still
	// apply.
	Resize(to corev1.ResourceRequirements) error
}

// Measurer is a Mounter that can measure its volumes.
type Measurer interface {
	// VolumeBytes returns the size of the files of a volume.
	VolumeBytes(name string) (int64, error)
}

// Volume is a volume of a pod. At most one of Files, HostPath and Handle is set; without any, the
// volume is an empty directory that lasts as long as the pod.
type Volume struct {
	Name string
	// Files are the files of a volume that containers only read; nil if it is of another type.
	Files []File
	// HostPath is a path of this machine.
	HostPath *corev1.HostPathVolumeSource
	// Handle identifies a directory that outlives the pod.
	Handle string
}

// ContainerSpec is a container to start.
type ContainerSpec struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// Attempt counts the starts of this container in this pod, from 0.
	Attempt int32
	// Env is the environment with all references resolved and unique names.
	Env []corev1.EnvVar
	// Command and Args are the container's command and args, with $(NAME) expanded.
	Command, Args []string
	// SubPaths are the mounts' subPath or expanded subPathExpr, one for each of
	// Container.VolumeMounts.
	SubPaths []string
	// Files returns the files at AccountPath, for runtimes that can't mount the pod's volumes. It
	// may block. A runtime without a file system need not call it; nil means that there are none.
	Files func() ([]File, error)
	// Event, if not nil, records an event about the container, such as the pull of its image. It
	// may block.
	Event func(eventType, reason, message string)
}

// Container is a started container.
type Container interface {
	// ID returns a unique id of the form "runtime://id".
	ID() string
	StartedAt() time.Time
	// Done is closed when the container and all its processes have ended. Its log is then complete.
	Done() <-chan struct{}
	// Exit returns how the container ended. It may be called only after Done is closed.
	Exit() Exit
	// Stop asks the container to end (SIGTERM), and kills it (SIGKILL) at the end of the grace
	// period. It does not wait. A later call can only shorten the remaining time. Stopping an ended
	// container does nothing.
	Stop(grace time.Duration)
	// Logs reads the part of the container's output that opts selects. The caller handles
	// opts.Container and opts.Previous. With Follow, the reader ends when the container or ctx
	// ends, or when it is closed. The caller must close it.
	Logs(ctx context.Context, opts *corev1.PodLogOptions) (io.ReadCloser, error)
}

// EndNotifier is implemented by Containers whose end the Agent need not wait for in a goroutine.
type EndNotifier interface {
	// AfterEnd calls f when the container ends, or now if it has ended; see Done. f does not block.
	AfterEnd(f func())
}

// Exit describes how a container ended.
type Exit struct {
	Code int32
	// Signal is the number of the signal that ended the container, or 0. If it is set, Code is 128
	// plus Signal.
	Signal int32
	// Reason defaults to "Completed" if Code is 0, and to "Error" otherwise.
	Reason string
	// Message is the container's termination message, or the reason why it could not run.
	Message    string
	FinishedAt time.Time
}

// Gone is the exit of a container that no longer exists, in a kubelet's words.
func Gone(at time.Time) Exit {
	return Exit{Code: 137, Reason: "ContainerStatusUnknown", FinishedAt: at,
		Message: "The container could not be located when the pod was terminated"}
}

// ErrNoLogs is returned by Container.Logs if the log no longer exists.
var ErrNoLogs = errors.New("the container's log no longer exists")
