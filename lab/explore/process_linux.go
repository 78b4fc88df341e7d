package explore

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// canIsolate reports whether processes can have their own networks.
func canIsolate() bool {
	result := make(chan error)
	go func() { result <- ownNetwork() }()
	return <-result == nil
}

// ownNetwork gives the calling goroutine's thread a network that has only a loopback device. The
// thread ends with the goroutine.
func ownNetwork() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	device, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, device)
}

// serviceAccountFolder is where a Pod finds the files of its ServiceAccount.
const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// showNamespace shows the calling goroutine's thread, and the processes that it starts, the file
// with the namespace of a Pod. controller-runtime reads it to find the namespace of its Lease. The
// thread must end with the goroutine. Other files of the system stay the same.
func showNamespace(namespace string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// A file system in memory hides /run. Its entries stay in reach by the descriptor of the hidden
	// folder.
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		return err
	}
	hidden, err := os.Open(run)
	if err != nil {
		return err
	}
	defer hidden.Close()
	entries, err := hidden.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", run, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != "secrets" {
			showEntry(fmt.Sprintf("/proc/self/fd/%d/%s", hidden.Fd(), entry.Name()), filepath.Join(run, entry.Name()),
				entry)
		}
	}
	if err := os.MkdirAll(serviceAccountFolder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(serviceAccountFolder, "namespace"), []byte(namespace), 0o644)
}

// showEntry shows an entry of a folder at another path. An entry that cannot be shown is missing.
func showEntry(from, to string, entry os.DirEntry) {
	var err error
	switch {
	case entry.Type()&os.ModeSymlink != 0:
		if target, readErr := os.Readlink(from); readErr == nil {
			_ = os.Symlink(target, to)
		}
		return
	case entry.IsDir():
		err = os.Mkdir(to, 0o755)
	default:
		err = os.WriteFile(to, nil, 0o600)
	}
	if err == nil {
		_ = unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
	}
}

// dialHere returns a function that connects to addresses in the network of the calling thread, also
// from other threads, until stop is called.
func dialHere() (dial func(address string) (net.Conn, error), stop func(), err error) {
	namespace, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, nil, err
	}
	type call struct {
		address string
		done    chan func() (net.Conn, error)
	}
	calls, entered, end := make(chan call), make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		namespace.Close()
		if entered <- err; err != nil {
			return
		}
		for {
			select {
			case c := <-calls:
				conn, err := net.DialTimeout("tcp", c.address, dialTimeout)
				c.done <- func() (net.Conn, error) { return conn, err }
			case <-end:
				return
			}
		}
	}()
	if err := <-entered; err != nil {
		return nil, nil, err
	}
	return func(address string) (net.Conn, error) {
		c := call{address, make(chan func() (net.Conn, error), 1)}
		select {
		case calls <- c:
			return (<-c.done)()
		case <-end:
			return nil, net.ErrClosed
		}
	}, func() { close(end) }, nil
}

// setGroup puts a process and its children into a group that can be killed as a whole, and that
// ends with this program.
func setGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// suspend stops all threads of a process and its children, or lets them continue.
func suspend(pid int, stop bool) error {
	signal := syscall.SIGCONT
	if stop {
		signal = syscall.SIGSTOP
	}
	return syscall.Kill(-pid, signal)
}

// running reports whether a thread of a process runs or waits for a processor.
func running(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		// the format is "pid (name) state …"; the name may contain parentheses
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && i+2 < len(stat) && stat[i+2] == 'R' {
			return true
		}
	}
	return false
}
