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

// place starts the processes of one pod. It is safe for concurrent use.
type place interface {
	// start starts cmd, whose Path is still empty: it finds the program of Args[0] as the pod would. An error is a *startError, or one of the system.
	start(cmd *exec.Cmd) error
	// terminal opens a terminal for a command of the pod.
	terminal() (master, slave *os.File, err error)
	// own gives the pod a file or directory that was made for it.
	own(root *os.Root, name string) error
	close()
}

// startError says why a command can't start before the system is asked to run it.
type startError struct {
	NoDir bool // the working directory is missing
	Exec  bool // the system refused to run the program
	Text  string
}

func (e *startError) Error() string { return e.Text }

// find sets the path of a command, seen from where it is called.
func find(cmd *exec.Cmd) error {
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return &startError{NoDir: true, Text: fmt.Sprintf("working directory %s is not there", cmd.Dir)}
	}
	path, err := lookPath(cmd.Args[0], cmd.Dir, cmd.Env)
	if err != nil {
		return &startError{Text: err.Error()}
	}
	cmd.Path = path
	return nil
}

// open is the place without confinement.
type open struct{}

func (open) start(cmd *exec.Cmd) error {
	if err := find(cmd); err != nil {
		return err
	}
	return cmd.Start()
}

func (open) terminal() (master, slave *os.File, err error) { return pty.Open() }
func (open) own(*os.Root, string) error                    { return nil }
func (open) close()                                        {}

// startOnTerminal starts cmd as the leader of a session on a terminal of its own.
func startOnTerminal(p place, cmd *exec.Cmd) (*os.File, error) {
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

// Users of pods are from a range that systemd's documentation of user ids reserves for nothing.
const (
	firstUser = 0x70000000
	userCount = 0x0FFE0000
	nobody    = 65534
)

// userOf is the user of a pod: always the same one, and almost never that of another pod.
func userOf(pod *corev1.Pod) uint32 {
	h := fnv.New32a()
	h.Write([]byte(pod.UID))
	user := firstUser + h.Sum32()%userCount
	if !mapped(user) {
		return nobody
	}
	return user
}

// asUser runs processes as an unprivileged user.
type asUser struct{ user uint32 }

func (p asUser) start(cmd *exec.Cmd) error {
	p.setUser(cmd)
	if err := find(cmd); err != nil {
		return err
	}
	return withoutNewPrivileges(cmd.Start)
}

func (p asUser) setUser(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.user, Gid: p.user}
}

func (p asUser) terminal() (master, slave *os.File, err error) {
	if master, slave, err = pty.Open(); err == nil {
		err = slave.Chown(int(p.user), int(p.user))
	}
	return master, slave, err
}

func (p asUser) own(root *os.Root, name string) error {
	return root.Lchown(name, int(p.user), int(p.user))
}

func (asUser) close() {}

// openDirectory makes a directory that other users can pass through but not list, where the data directory's parents can't be passed.
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
		return "", fmt.Errorf("%s is not a directory of this user", dir)
	}
	return dir, os.Chmod(dir, 0o711) // whatever the umask
}

// makeDirs makes a directory and those above it in root, and gives them to the pod.
func makeDirs(p place, root *os.Root, name string) error {
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
		if err := p.own(root, at); err != nil {
			return err
		}
	}
	return nil
}
