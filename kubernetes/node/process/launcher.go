//go:build unix

package process

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
)

// launcher starts the processes of one pod. It is safe for concurrent use.
type launcher interface {
	// start starts cmd, whose Path is empty: it looks up Args[0] in the pod's PATH and root
	// directory. It returns a *startError or a system error.
	start(cmd *exec.Cmd) error
	// end kills the processes that a command has left, if it can tell them from those of other
	// commands. It must be called after the command's end.
	end(cmd *exec.Cmd)
	// terminal opens a pseudo-terminal for a command of the pod.
	terminal() (master, slave *os.File, err error)
	// chown makes the pod's user the owner of a file or directory.
	chown(root *os.Root, name string) error
	close()
}

// startError is a failure before or when the command's program is executed.
type startError struct {
	NoDir bool // the working directory does not exist
	Exec  bool // executing the program failed
	Text  string
}

func (e *startError) Error() string { return e.Text }

// find sets the path of a command. It must run where the command will run, in the same root
// directory.
func find(cmd *exec.Cmd) error {
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return &startError{NoDir: true, Text: fmt.Sprintf("working directory %s does not exist", cmd.Dir)}
	}
	path, err := lookPath(cmd.Args[0], cmd.Dir, cmd.Env)
	if err != nil {
		return &startError{Text: err.Error()}
	}
	cmd.Path = path
	return nil
}

// unconfined is the launcher of pods without confinement.
type unconfined struct{ group *cgroup }

func (p unconfined) start(cmd *exec.Cmd) error {
	if err := find(cmd); err != nil {
		return err
	}
	return lasting(func() error { return p.group.start(cmd) })
}

func (unconfined) end(*exec.Cmd)                                 {}
func (unconfined) terminal() (master, slave *os.File, err error) { return pty.Open() }
func (unconfined) chown(*os.Root, string) error                  { return nil }
func (unconfined) close()                                        {}

// startOnTerminal starts cmd as a session leader on its own terminal.
func startOnTerminal(p launcher, cmd *exec.Cmd) (*os.File, error) {
	master, slave, err := p.terminal()
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.start(cmd); err != nil {
		master.Close()
		return nil, err
	}
	return master, nil
}

// The range of the pods' users. systemd's documentation of user ids lists it as unused.
const (
	firstUser = 0x70000000
	userCount = 0x0FFE0000
	nobody    = 65534
)

// userOf returns the user id of a pod. It is always the same for a pod, and almost always different
// from those of other pods.
func userOf(pod *corev1.Pod) uint32 {
	h := fnv.New32a()
	h.Write([]byte(pod.UID))
	user := firstUser + h.Sum32()%userCount
	if !mapped(user) {
		return nobody
	}
	return user
}

// asUser is a launcher that runs processes as an unprivileged user.
type asUser struct {
	user  uint32
	group *cgroup
	as    *identity // nil if the processes see the user of the machine
}

func (p asUser) start(cmd *exec.Cmd) error {
	p.setUser(cmd)
	if err := find(cmd); err != nil {
		return err
	}
	return withoutNewPrivileges(func() error { return p.group.start(cmd) })
}

func (p asUser) setUser(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.user, Gid: p.user}
	if p.as != nil {
		p.as.assume(cmd.SysProcAttr, p.user)
	}
}

func (asUser) end(*exec.Cmd) {}

func (p asUser) terminal() (master, slave *os.File, err error) {
	if master, slave, err = pty.Open(); err == nil {
		err = slave.Chown(int(p.user), int(p.user))
	}
	return master, slave, err
}

func (p asUser) chown(root *os.Root, name string) error {
	return root.Lchown(name, int(p.user), int(p.user))
}

func (asUser) close() {}

// openDirectory creates a directory that other users can enter but not list. It replaces a data
// directory below parents that they can't enter.
func openDirectory(root string) (string, error) {
	h := fnv.New64a()
	h.Write([]byte(root))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("kelson-pods-%x", h.Sum64()))
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a directory owned by this user", dir)
	}
	return dir, os.Chmod(dir, 0o711) // independent of the umask
}

// makeDirs creates a directory and its parents in root, and makes the pod's user their owner.
func makeDirs(p launcher, root *os.Root, name string) error {
	name = strings.Trim(filepath.Clean("/"+name), "/")
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			continue
		}
		at = filepath.Join(at, part)
		if err := root.Mkdir(at, 0o700); errors.Is(err, os.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := p.chown(root, at); err != nil {
			return err
		}
	}
	return nil
}
