//go:build unix

// Package process is a node runtime that runs the containers' commands as processes of this
// machine.
//
// Containers share the machine's network, CPUs and memory, but not the agent's files: see
// [Confinement]. The runtime is meant for users who run their own pods on their own machine, and
// for tests. It runs only when a user selects it. A container has:
//
//   - a root directory with the system's programs, without the agent's data, home directories and
//     /run; and an unprivileged user
//   - its own process group, and where the system allows it, its own control group; when its first
//     process ends, the container ends and its other processes are killed
//   - a new directory for each attempt, which is its working directory and HOME
//   - an environment of PATH, HOME, HOSTNAME and the pod's variables, without those of the agent
//   - a log of its output, an exit code, and SIGTERM followed by SIGKILL after the grace period
//   - a termination message, from the file terminationMessagePath below its directory or, depending
//     on the policy, from its log
//   - with [ConfinedRoot], the pod's volumes at their mount paths, and the files of its image, if
//     Config.Images has a directory for it
//
// The runtime supports nothing else. It does not pull images, so a container must have a command.
// With weaker confinements, which can't mount, it refuses pods with volumes other than that of the
// service account, whose files are below the container's directory, at
// $HOME/var/run/secrets/kubernetes.io/serviceaccount, and are not updated. Of the security
// contexts, users, groups and read-only root directories have an effect with [ConfinedRoot]; where
// they have no effect, an event names them. Limits of memory and CPU, and requests of CPU, are
// enforced by control groups where the agent may create them: as root on most Linux systems.
// Elsewhere they have no effect.
//
// A hostPath volume can't show a path that contains or is below one that is hidden from pods: the
// data directory, home directories and others in Config.Hidden, /proc, /sys, /dev and /run.
//
//	<Root>/<pod uid>/<container>/<attempt>/     the container's directory
//	<Root>/<pod uid>/<container>/<attempt>.log  its output, see package containerlog
//	<Root>/<pod uid>/.tmp/                      the /tmp of the pod's containers
//	<Root>/<pod uid>/.volumes/<name>/           a volume, unless it outlives the pod
//	<Root>/.claims/<handle>/                    a volume that outlives the pods that mount it
//
// Processes end with the context of their sandbox: they do not outlive the agent that started them.
// If the agent is killed, the first process of each container ends with it on Linux. The others end
// at the same time where control groups track them (kernel 5.14 or later), and otherwise when the
// next agent with the same Root starts. Processes that leave their process group, such as
// daemons, end with their container, by the strongest means that the system offers:
//
//	with control groups     all processes
//	without, as root        all processes of the pod's user, with the pod's last running container
//	without, as other user  all processes in the user namespaces of its commands; those of a command
//	                        that is executed in a container end with this command
//	in addition, on Linux   processes that started with the HOME of the container
//
// With [Unconfined] and without control groups, only the last line applies; on other systems than
// Linux, none.
//
//	r, err := process.New(process.Config{Root: dir})
//	agent := node.NewAgent(node.AgentConfig{…, Runtime: r})
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/containerlog"
)

// Config configures a Runtime.
type Config struct {
	// Root is the directory of all files of containers. New creates it if needed.
	Root string
	// Path is the containers' PATH; "" means the usual system directories.
	Path string
	// LogBytes is the maximum size of a container's log; 0 means containerlog.DefaultMaxBytes.
	LogBytes int64
	// HostIP is the address of every pod; "" means 127.0.0.1.
	HostIP string
	// Images has the directories with the files of images, by the names of the images. Their
	// entries are in the root directories of containers, read-only.
	Images map[string]string
	// Hidden lists files and directories below the system's directories that pods can't see, such
	// as a data directory in /opt.
	Hidden []string
	// Unconfined runs pods as the user of this process, with access to its files, on every system.
	Unconfined bool
}

// defaultPath is the PATH of container images that set none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// shutdownGrace is the grace period of containers when their agent ends.
const shutdownGrace = 2 * time.Second

// Runtime implements node.Runtime.
type Runtime struct {
	config      Config
	confinement Confinement
	groups      *cgroups
	// namespaces reports whether root may create user namespaces.
	namespaces func() bool
}

// Confinement returns how pods are isolated from this process.
func (r *Runtime) Confinement() Confinement { return r.confinement }

// New returns a runtime that stores its containers below config.Root. Unless config.Unconfined is
// set, it runs a program to determine which [Confinement] the system allows, and returns
// [ErrNotConfined] if it allows none.
func New(config Config) (*Runtime, error) {
	if config.Root == "" {
		return nil, errors.New("process runtime: Root is empty")
	}
	root, err := filepath.Abs(config.Root)
	if err != nil {
		return nil, fmt.Errorf("process runtime: %w", err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("process runtime: %w", err)
	}
	config.Root = root
	if config.Path == "" {
		config.Path = defaultPath
	}
	if config.HostIP == "" {
		config.HostIP = "127.0.0.1"
	}
	r := &Runtime{config: config, confinement: Unconfined, groups: newCgroups(root)}
	r.namespaces = sync.OnceValue(r.tryNamespace)
	if config.Unconfined {
		return r, nil
	}
	if r.confinement, err = r.confine(); err == nil && r.confinement == ConfinedUser {
		r.config.Root, err = openDirectory(root)
	}
	if err != nil {
		return nil, fmt.Errorf("process runtime: %w", err)
	}
	return r, nil
}

// dirMode returns the mode of parent directories. With ConfinedUser, pods' users must be able to
// enter them.
func (r *Runtime) dirMode() os.FileMode {
	if r.confinement == ConfinedUser {
		return 0o711
	}
	return 0o700
}

// Info reports this machine's CPUs. Memory is unknown and not limited, so the capacity is large.
func (*Runtime) Info() node.Info {
	return node.Info{Name: "process", Version: "1.0", Capacity: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}, Executes: true}
}

// Sandbox creates the pod's directory, and kills the processes of the pod that an earlier agent may
// have left. It returns an error if the pod mounts volumes and this runtime can't.
func (r *Runtime) Sandbox(ctx context.Context, pod *corev1.Pod) (node.Sandbox, error) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := r.mountable(&list[i]); err != nil {
				return nil, err
			}
		}
	}
	dir := filepath.Join(r.config.Root, string(pod.UID))
	if err := os.MkdirAll(dir, r.dirMode()); err != nil {
		return nil, fmt.Errorf("create the pod's directory: %w", err)
	}
	s := &sandbox{runtime: r, ctx: ctx, dir: dir, user: userOf(pod), sources: map[string]mount{}}
	s.volumeGroup, s.shared = volumeGroup(pod)
	r.groups.endLeftovers(string(pod.UID))
	s.endStrays()
	return s, nil
}

// mountable returns an error if a container mounts volumes in a way that the runtime can't.
func (r *Runtime) mountable(c *corev1.Container) error {
	for _, m := range c.VolumeMounts {
		if r.confinement != ConfinedRoot && m.MountPath != node.AccountPath {
			return fmt.Errorf("container %q mounts volume %q at %s: the process runtime can mount volumes only if pods have their own root directories, which this server's pods don't",
				c.Name, m.Name, m.MountPath)
		}
		if p := m.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
			return fmt.Errorf("container %q mounts volume %q with mountPropagation %s, which the process runtime does not support", c.Name, m.Name, *p)
		}
	}
	if len(c.VolumeDevices) > 0 {
		return fmt.Errorf("container %q uses volume device %q, which the process runtime does not support", c.Name,
			c.VolumeDevices[0].Name)
	}
	return nil
}

// idFormat is the beginning of a container's id, with the process id.
const idFormat = "process://%d-"

type sandbox struct {
	runtime *Runtime
	ctx     context.Context
	dir     string
	user    uint32 // of the pod, if the agent runs as root
	// volumeGroup owns the files of volumes. shared is set if the pod chose the group. Members of
	// the group may then read the files, and write those of writable volumes.
	volumeGroup uint32
	shared      bool

	mu         sync.Mutex
	containers []*container
	running    int              // containers, including those that are being started
	sources    map[string]mount // of volumes, by name
}

func (s *sandbox) IP() string { return s.runtime.config.HostIP }

// Start runs the container's command. It does not wait for the command.
func (s *sandbox) Start(_ context.Context, spec node.ContainerSpec) (node.Container, error) {
	if len(spec.Command) == 0 {
		return nil, fmt.Errorf("container %q has no command: the process runtime does not read images, so spec.containers[].command must be set", spec.Container.Name)
	}
	base := filepath.Join(s.dir, spec.Container.Name)
	dir := filepath.Join(base, fmt.Sprint(spec.Attempt))
	if err := os.MkdirAll(base, s.runtime.dirMode()); err != nil {
		return nil, fmt.Errorf("create the container's directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("create the container's directory: %w", err)
	}
	if spec.Attempt >= 2 { // only the log of the previous attempt can be read
		old := filepath.Join(base, fmt.Sprint(spec.Attempt-2))
		os.RemoveAll(old)
		os.Remove(old + ".log")
		os.Remove(old + ".log.1")
	}
	log, err := containerlog.New(containerlog.Config{Path: dir + ".log", MaxBytes: s.runtime.config.LogBytes})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	c, err := s.start(dir, spec, log)
	if err != nil {
		s.leave()
		log.Release()
		return nil, err
	}
	c.detach = context.AfterFunc(s.ctx, func() { c.Stop(shutdownGrace) })
	s.mu.Lock()
	s.containers = append(s.containers, c)
	s.mu.Unlock()
	return c, nil
}

// leave records the end of a container. With the last one that runs, all processes of the pod end.
func (s *sandbox) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 {
		s.endStrays()
	}
}

// start creates the container's files and its launcher, and starts the container.
func (s *sandbox) start(dir string, spec node.ContainerSpec, log *containerlog.Log) (_ *container, err error) {
	// A container of the pod may have written to dir before. OpenRoot follows no link out of it.
	files, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the container's directory: %w", err)
	}
	defer func() {
		if err != nil {
			files.Close()
		}
	}()
	as, err := identityOf(spec.Pod, spec.Container)
	if err != nil {
		return nil, err
	}
	as = s.possible(spec, as)
	mounts, err := s.mounts(spec)
	if err != nil {
		return nil, err
	}
	message, err := s.messageFile(files, spec.Container)
	if err != nil {
		return nil, fmt.Errorf("create the file of the termination message: %w", err)
	}
	group, err := s.runtime.groups.new(fmt.Sprintf("%s-%s-%d", spec.Pod.UID, spec.Container.Name, spec.Attempt),
		shareOf(spec.Container.Resources))
	if err != nil {
		return nil, fmt.Errorf("limit container %q: %w", spec.Container.Name, err)
	}
	defer func() {
		if err != nil {
			group.close()
		}
	}()
	p, err := s.runtime.newLauncher(spec.Pod, s.dir, dir, mounts, group, as, readOnlyRoot(spec.Container), message)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := writeFiles(p, files, spec, s.runtime.confinement); err != nil {
		return nil, err
	}
	if err := p.chown(files, "."); err != nil {
		return nil, fmt.Errorf("change the owner of the container's directory: %w", err)
	}
	return start(s.runtime.config.Path, dir, p, group, s.runtime.groups.available(), files, spec, log, s.leave)
}

// messageFile creates the file of the termination message for a container that can't create it
// itself, and returns its path in the container's directory; "" if the container can.
func (s *sandbox) messageFile(dir *os.Root, c *corev1.Container) (string, error) {
	name := strings.Trim(filepath.Clean("/"+c.TerminationMessagePath), "/")
	if s.runtime.confinement != ConfinedRoot || !readOnlyRoot(c) || name == "" {
		return "", nil
	}
	if err := dir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) { // left by an attempt that could not be started
		return name, nil
	}
	if err != nil {
		return "", err
	}
	f.Close()
	if os.Geteuid() == 0 {
		err = dir.Lchown(name, int(s.user), int(s.user))
	}
	return name, err
}

// writeFiles creates the directory of the termination message and, if the container can't mount
// volumes, writes the service account's files below the container's directory.
func writeFiles(p launcher, dir *os.Root, spec node.ContainerSpec, confinement Confinement) error {
	if path := spec.Container.TerminationMessagePath; path != "" {
		if err := makeDirs(p, dir, filepath.Dir(path)); err != nil {
			return fmt.Errorf("create the directory of the termination message: %w", err)
		}
	}
	if spec.Files == nil || confinement == ConfinedRoot {
		return nil
	}
	files, err := spec.Files()
	if err != nil {
		return err
	}
	for _, file := range files {
		name := strings.Trim(filepath.Clean("/"+file.Path), "/")
		if err := makeDirs(p, dir, filepath.Dir(name)); err != nil {
			return fmt.Errorf("create the directory of the service account's files: %w", err)
		}
		err := dir.WriteFile(name, file.Data, 0o600)
		if err == nil {
			err = p.chown(dir, name)
		}
		if err != nil {
			return fmt.Errorf("write the service account's files: %w", err)
		}
	}
	return nil
}

// Adopt returns an ended container with the log that an earlier agent left. Its exit is the one in
// the status. If the container is running according to the status, the exit is node.Gone, and Adopt
// kills its processes.
func (s *sandbox) Adopt(_ context.Context, spec node.ContainerSpec, status corev1.ContainerStatus) node.Container {
	c := &container{id: status.ContainerID, done: make(chan struct{}), exit: node.Gone(time.Now()),
		detach: func() bool { return true }}
	switch state := status.State; {
	case state.Terminated != nil:
		t := state.Terminated
		c.started = t.StartedAt.Time
		c.exit = node.Exit{Code: t.ExitCode, Signal: t.Signal, Reason: t.Reason, Message: t.Message,
			FinishedAt: t.FinishedAt.Time}
	case state.Running != nil:
		c.started = state.Running.StartedAt.Time
		endLeftover(status.ContainerID, filepath.Join(s.dir, spec.Container.Name, fmt.Sprint(spec.Attempt)))
	}
	if log, err := containerlog.Open(filepath.Join(s.dir, spec.Container.Name, fmt.Sprint(spec.Attempt)) + ".log"); err == nil {
		c.log = log
	}
	close(c.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers = append(s.containers, c)
	return c
}

// endLeftover kills the processes of a container whose agent was killed before it could end them.
// To make sure that the process id wasn't reused, it compares HOME in the process's environment; on
// systems that don't show environments in /proc, it kills nothing.
func endLeftover(id, dir string) {
	var pid int
	if _, err := fmt.Sscanf(id, idFormat, &pid); err != nil || pid <= 1 {
		return
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err == nil && slices.Contains(strings.Split(string(environ), "\x00"), "HOME="+dir) {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	endMarked(dir)
}

// Remove kills all running containers and deletes the pod's directory.
func (s *sandbox) Remove() error {
	s.mu.Lock()
	containers := s.containers
	s.mu.Unlock()
	for _, c := range containers {
		c.Stop(0)
	}
	for _, c := range containers {
		<-c.done
		c.detach()
		if c.log != nil {
			c.log.Release()
		}
	}
	s.mu.Lock()
	s.endStrays() // a command may have been executed after the end of its container's processes
	s.mu.Unlock()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the pod's directory: %w", err)
	}
	return nil
}

// environ returns the container's environment. The pod's variables override the defaults.
func environ(path, dir string, spec node.ContainerSpec) []string {
	hostname := spec.Pod.Spec.Hostname
	if hostname == "" {
		hostname = spec.Pod.Name
	}
	env := []string{"PATH=" + path, "HOME=" + dir, "HOSTNAME=" + hostname}
	for _, e := range spec.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	return env
}

// lookPath finds a program as the container would: in its PATH or, if the name has a slash,
// relative to its working directory.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	path := ""
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && filepath.IsAbs(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}
