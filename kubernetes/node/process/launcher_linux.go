package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// confine tries the confinements, strongest first, and returns the first that works on this system.
func (r *Runtime) confine() (Confinement, error) {
	if err := os.MkdirAll(filepath.Join(r.config.Root, mountPoint), 0o700); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(r.config.Root, ".try-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	p, err := r.newRootLauncher(nobody, dir, rootFS{Dir: dir}, nil, nil)
	if err == nil {
		err = r.try(p)
		p.close()
	}
	if err == nil {
		return ConfinedRoot, nil
	}
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: user and mount namespaces are not available to this user: %w", ErrNotConfined, err)
	}
	if err := r.try(asUser{user: nobody}); err != nil {
		return "", fmt.Errorf("%w: run as another user: %w", ErrNotConfined, err)
	}
	return ConfinedUser, nil
}

// translates reports whether processes can have an identity that differs from the user on the
// machine. This needs user namespaces.
func (r *Runtime) translates() bool {
	return r.confinement == ConfinedRoot && (os.Geteuid() != 0 || r.namespaces())
}

// tryNamespace reports whether this process, which runs as root, may create user namespaces.
func (r *Runtime) tryNamespace() bool {
	dir, err := os.MkdirTemp(r.config.Root, ".try-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	p, err := r.newRootLauncher(nobody, dir, rootFS{Dir: dir}, nil, &identity{User: 1, Group: 1})
	if err != nil {
		return false
	}
	defer p.close()
	return r.try(p) == nil
}

// try runs a program with a launcher. A missing program is not an error of the launcher.
func (r *Runtime) try(p launcher) error {
	cmd := &exec.Cmd{Args: []string{"true"}, Env: []string{"PATH=" + r.config.Path}, Dir: "/"}
	err := p.start(cmd)
	if early := (*startError)(nil); errors.As(err, &early) && !early.Exec && !early.NoDir {
		return nil
	}
	if err != nil {
		return err
	}
	err = cmd.Wait()
	p.end(cmd)
	return err
}

// newLauncher returns the launcher of a container, which starts its processes in group. podDir and
// dir are the directories of the pod and the container. Only ConfinedRoot mounts volumes, gives
// processes the identity as, which may be nil, and makes everything but volumes and the file
// message read-only.
func (r *Runtime) newLauncher(pod *corev1.Pod, podDir, dir string, mounts []mount, group *cgroup, as *identity,
	readOnly bool, message string) (launcher, error) {
	switch r.confinement {
	case ConfinedRoot:
		return r.newRootLauncher(userOf(pod), podDir,
			rootFS{Dir: dir, Mounts: mounts, ReadOnly: readOnly, Message: message}, group, as)
	case ConfinedUser:
		return asUser{user: userOf(pod), group: group}, nil
	}
	return unconfined{group}, nil
}

// newRootLauncher returns a launcher whose processes see the root file system v. It sets the fields
// of v that do not depend on the container.
func (r *Runtime) newRootLauncher(user uint32, podDir string, v rootFS, group *cgroup, as *identity) (launcher, error) {
	tmp := filepath.Join(podDir, podTmp)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, fmt.Errorf("create the pod's /tmp: %w", err)
	}
	v.Mount, v.Tmp, v.Hidden, v.NoHostPaths = filepath.Join(r.config.Root, mountPoint), tmp, r.config.Hidden,
		r.noHostPaths()
	if os.Geteuid() != 0 {
		return &reexecuted{unconfined: unconfined{group}, rootFS: v, as: as}, nil
	}
	v.User = user
	if err := os.Lchown(tmp, int(user), int(user)); err != nil {
		return nil, fmt.Errorf("create the pod's /tmp: %w", err)
	}
	return newThread(v, asUser{user, group, as})
}

// assume makes a process run with the identity, in its own user namespace. outside is the user on
// the machine.
func (id *identity) assume(a *syscall.SysProcAttr, outside uint32) {
	a.Cloneflags |= unix.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(id.User), HostID: int(outside), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(id.Group), HostID: int(outside), Size: 1}}
	a.Credential = &syscall.Credential{Uid: id.User, Gid: id.Group}
	for _, g := range id.Groups {
		a.GidMappings = append(a.GidMappings, syscall.SysProcIDMap{ContainerID: int(g.Inside), HostID: int(g.Outside),
			Size: 1})
		a.Credential.Groups = append(a.Credential.Groups, g.Inside)
	}
	a.GidMappingsEnableSetgroups = true
}

// thread is an operating system thread with its own mount namespace. Processes that it starts
// inherit its root directory. Starting them is as cheap as without confinement, because no helper
// program is needed.
type thread struct {
	asUser
	work   chan func()
	stop   chan struct{}
	closed sync.Once
}

func newThread(v rootFS, user asUser) (*thread, error) {
	t, err := startThread(user, func() error {
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = v.enter(true)
		}
		if err == nil {
			err = noNewPrivileges()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create the pod's root directory: %w", err)
	}
	return t, nil
}

// startThread returns a thread on which setup has been called.
func startThread(user asUser, setup func() error) (*thread, error) {
	t := &thread{asUser: user, work: make(chan func()), stop: make(chan struct{})}
	ready := make(chan error)
	onThread(func() {
		err := setup()
		ready <- err
		for err == nil {
			select {
			case f := <-t.work:
				f()
			case <-t.stop:
				return
			}
		}
	})
	return t, <-ready
}

// onThread runs f on a thread that is destroyed afterwards. It avoids the main thread, which can't
// be destroyed and is the one that /proc/self shows.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // without unlocking, the thread is destroyed with the goroutine
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		taken := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(taken)
			f()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}

// do runs f on the thread.
func (t *thread) do(f func() error) (err error) {
	done := make(chan struct{})
	call := func() {
		defer close(done)
		err = f()
	}
	select {
	case t.work <- call:
		<-done
		return err
	case <-t.stop:
		return errors.New("the container has ended")
	}
}

func (t *thread) start(cmd *exec.Cmd) error {
	t.setUser(cmd)
	return t.do(func() error {
		if err := find(cmd); err != nil {
			return err
		}
		return t.group.start(cmd)
	})
}

func (t *thread) terminal() (master, slave *os.File, err error) {
	err = t.do(func() error {
		master, slave, err = t.asUser.terminal()
		return err
	})
	return master, slave, err
}

func (t *thread) close() { t.closed.Do(func() { close(t.stop) }) }

// mapped reports whether a user id exists in this process's user namespace.
func mapped(user uint32) bool {
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return true
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var first, outside, count uint64
		if n, _ := fmt.Sscan(lines.Text(), &first, &outside, &count); n == 3 && uint64(user) >= first &&
			uint64(user) < first+count {
			return true
		}
	}
	return false
}

func noNewPrivileges() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// Threads that start processes and last as long as this process; see cgroup.start.
var (
	lastingThread = sync.OnceValues(func() (*thread, error) {
		return startThread(asUser{}, func() error { return nil })
	})
	restrictedThread = sync.OnceValues(func() (*thread, error) { return startThread(asUser{}, noNewPrivileges) })
)

// lasting calls start on a thread that lasts as long as this process.
func lasting(start func() error) error {
	t, err := lastingThread()
	if err != nil {
		return err
	}
	return t.do(start)
}

// withoutNewPrivileges is lasting, and set-user-ID programs have no effect in the new process.
func withoutNewPrivileges(start func() error) error {
	t, err := restrictedThread()
	if err != nil {
		return err
	}
	return t.do(start)
}
