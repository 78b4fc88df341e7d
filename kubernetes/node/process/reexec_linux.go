package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A process that is not root can create a mount namespace only together with a user namespace, in a
// new process; a multithreaded program can't do this between fork and exec. Therefore this program
// executes itself under another name. The new process sets up its root directory, drops its
// privileges, and executes the container's command.
//
//	kelson ── clone: user and mount namespace ──▶ kelson, named reexecName: init, below ──▶ the command
//	    └───────── reexecSpec, in a pipe ──────────▲      │
//	    ◀──────── startError, in a pipe; or its end ──────┘
//
// Starting this program again takes some tens of milliseconds. An agent that runs as root uses a
// thread instead.

// reexecName is the name (Args[0]) under which this program executes a container's command.
const reexecName = "kelson: container"

// The file descriptors that the new process inherits in addition to its standard streams.
const (
	specFile  = 3
	errorFile = 4
)

// reexecSpec describes the command and its root directory.
type reexecSpec struct {
	View rootFS
	Args []string
	Env  []string
	Dir  string
}

// reexecuted is a launcher that runs processes as the agent's user, in their own user and mount
// namespaces.
type reexecuted struct {
	unconfined
	rootFS rootFS
	as     *identity // nil: the agent's user and group
	// namespaces has the user namespaces of the running commands: a *namespace by *exec.Cmd
	namespaces sync.Map
}

func (p *reexecuted) start(cmd *exec.Cmd) (err error) {
	spec, err := json.Marshal(reexecSpec{View: p.rootFS, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir})
	if err != nil {
		return err
	}
	specReader, specWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer specWriter.Close()
	errReader, errWriter, err := os.Pipe()
	if err != nil {
		specReader.Close()
		return err
	}
	defer errReader.Close()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	user, group := os.Geteuid(), os.Getegid()
	seenUser, seenGroup := user, group
	if p.as != nil { // only root may translate further groups
		seenUser, seenGroup = int(p.as.User), int(p.as.Group)
	}
	a := cmd.SysProcAttr
	a.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: seenUser, HostID: user, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: seenGroup, HostID: group, Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir = "/proc/self/exe", []string{reexecName}, []string{}, "/"
	cmd.ExtraFiles = []*os.File{specReader, errWriter}
	err = lasting(func() error { return p.group.start(cmd) })
	specReader.Close()
	errWriter.Close()
	if err != nil {
		return err
	}
	if _, err = specWriter.Write(spec); err == nil {
		err = specWriter.Close()
	}
	failure, readErr := io.ReadAll(errReader) // ends when the process executes the command or exits
	if err = errors.Join(err, readErr); err == nil && len(failure) == 0 {
		// The process exists until it is waited for, even if it has ended.
		p.namespaces.Store(cmd, namespaceOf(cmd.Process.Pid))
		return nil
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	cmd.Process, cmd.ProcessState = nil, nil // the command never ran
	if err != nil {
		return err
	}
	var s startError
	if err := json.Unmarshal(failure, &s); err != nil {
		return fmt.Errorf("decode start error: %w", err)
	}
	return &s
}

// end kills the processes in the user namespace of the command, which they can't leave.
func (p *reexecuted) end(cmd *exec.Cmd) {
	if found, ok := p.namespaces.LoadAndDelete(cmd); ok {
		ns := found.(*namespace)
		ns.end()
		ns.close()
	}
}

func (p *reexecuted) terminal() (master, slave *os.File, err error) { return pty.Open() }

// init executes a container's command if this process was started for that. It runs before main,
// and in test binaries before the tests.
func init() {
	if len(os.Args) != 1 || os.Args[0] != reexecName {
		return
	}
	err := execCommand()
	var s *startError
	if !errors.As(err, &s) {
		s = &startError{Exec: true, Text: err.Error()}
	}
	text, _ := json.Marshal(s)
	_, _ = os.NewFile(errorFile, "error").Write(text)
	os.Exit(1)
}

// execCommand replaces this process by the container's command. It returns only on an error. init
// runs on the main thread, whose privileges the command inherits.
func execCommand() error {
	unix.CloseOnExec(specFile)
	unix.CloseOnExec(errorFile)
	in := os.NewFile(specFile, "spec")
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read command: %w", err)
	}
	var spec reexecSpec
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("decode command: %w", err)
	}
	if err := spec.View.enter(false); err != nil {
		return err
	}
	if err := dropPrivileges(); err != nil {
		return err
	}
	cmd := &exec.Cmd{Args: spec.Args, Env: spec.Env, Dir: spec.Dir}
	if err := find(cmd); err != nil {
		return err
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return &startError{Exec: true, Text: err.Error()}
	}
	if err := withholdDescriptors(); err != nil {
		return err
	}
	err = syscall.Exec(cmd.Path, cmd.Args, cmd.Env)
	return &startError{Exec: true, Text: (&os.PathError{Op: "fork/exec", Path: cmd.Path, Err: err}).Error()}
}

// dropPrivileges gives up the capabilities of the user namespace, and the ways to gain new ones. If
// the kernel supports it, it also prevents signals to other processes of the same user and
// connections to their abstract sockets.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	scope := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	if rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&scope)),
		unsafe.Sizeof(scope), 0); errno == 0 {
		_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
		_ = unix.Close(int(rules))
		if errno != 0 {
			return fmt.Errorf("restrict signals: %w", errno)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	none := [2]unix.CapUserData{}
	return unix.Capset(&header, &none[0])
}
