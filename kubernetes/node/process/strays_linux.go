package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A process can leave its process group and its parent. The runtime finds such processes by
// properties that they keep. Which of these exist depends on the system:
//
//	control group     of the container; see cgroups
//	user              of the pod, if the agent runs as root
//	user namespace    of the command, if the agent does not run as root
//	HOME at its start of the container; a process that changes its environment avoids this
//
// Killing is repeated until no process is left, because a process may fork meanwhile.

// The runtime kills processes up to strayRounds times, and waits strayPause for their end.
const (
	strayRounds = 100
	strayPause  = 10 * time.Millisecond
)

// endStrays kills the processes of the sandbox's pod, none of whose containers runs. Where control
// groups track the processes, it does nothing, because each container ends those of its group.
func (s *sandbox) endStrays() {
	if os.Geteuid() == 0 && s.runtime.confinement != Unconfined && s.user != nobody && !s.runtime.groups.tracked() {
		endUser(s.user)
	}
}

// endUser kills all processes of a pod's user. It must not be called with a user that has other
// processes.
func endUser(user uint32) {
	if errors.Is(killUser(user), unix.ESRCH) {
		return
	}
	line := fmt.Sprintf("\nUid:\t%d\t", user)
	for range strayRounds {
		if !slices.ContainsFunc(processes(), func(pid int) bool { return strings.Contains(statusOf(pid), line) }) {
			return
		}
		time.Sleep(strayPause)
		_ = killUser(user)
	}
}

// killUser sends SIGKILL to all processes of a user at once. Unlike one signal for each process,
// this does not miss processes that are forked meanwhile.
//
//	thread                     users real, effective, saved     may signal the other
//	of this process            spare  user  spare               yes: user
//	of a process of the user   user   user  user                no: neither real nor saved
func killUser(user uint32) error {
	spare := uint32(firstUser + userCount - 1)
	if spare == user {
		spare--
	}
	done := make(chan error)
	onThread(func() { // the thread is destroyed afterwards, because it can't become root again
		number := uintptr(unix.SYS_SETRESUID)
		if runtime.GOARCH == "386" || runtime.GOARCH == "arm" {
			number = 208 // setresuid32; the other has users of 16 bits
		}
		// The functions of packages syscall and unix change all threads.
		if _, _, errno := unix.RawSyscall(number, uintptr(spare), uintptr(user), uintptr(spare)); errno != 0 {
			done <- errno
			return
		}
		// The thread may have kept its capabilities when it changed its user. With CAP_KILL, the
		// signal would reach all processes.
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		none := [2]unix.CapUserData{}
		err := unix.Capset(&header, &none[0])
		if err == nil {
			err = unix.Kill(-1, unix.SIGKILL) // not this process and process 1
		}
		done <- err
	})
	return <-done
}

// endMarked kills the processes that started with HOME=dir, and the others in their user
// namespaces.
func endMarked(dir string) {
	marked := func(pid int) bool {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return err == nil && slices.Contains(strings.Split(string(environ), "\x00"), "HOME="+dir)
	}
	for _, pid := range processes() {
		if marked(pid) {
			ns := namespaceOf(pid)
			ns.end()
			ns.close()
		}
	}
	endAll(marked)
}

// endAll kills the processes that match.
func endAll(match func(pid int) bool) {
	for range strayRounds {
		found := false
		for _, pid := range processes() {
			if !match(pid) {
				continue
			}
			// The process may have ended and its id may have been reused. FindProcess opens a
			// descriptor of the process that has the id now.
			if p, err := os.FindProcess(pid); err == nil {
				if match(pid) && statusOf(pid) != "" {
					found = true
					_ = p.Kill()
				}
				_ = p.Release()
			}
		}
		if !found {
			return
		}
		time.Sleep(strayPause)
	}
}

// processes returns the ids of the other processes, except the first.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 1 && pid != os.Getpid() {
			all = append(all, pid)
		}
	}
	return all
}

// statusOf returns the status of a running process; "" if it has ended.
func statusOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || bytes.Contains(text, []byte("\nState:\tZ")) || bytes.Contains(text, []byte("\nState:\tX")) {
		return ""
	}
	return string(text)
}

// namespace is a user namespace. While it is open, no other namespace has the same file. A nil
// namespace has no processes.
type namespace struct {
	file *os.File
	info os.FileInfo
}

// namespaceOf opens the user namespace of a process; nil if the process has ended or this process
// has no access to it.
func namespaceOf(pid int) *namespace {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return nil
	}
	return newNamespace(f)
}

func newNamespace(f *os.File) *namespace {
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil
	}
	return &namespace{f, info}
}

func (n *namespace) close() {
	if n != nil {
		n.file.Close()
	}
}

// parent opens the parent of a namespace; nil if this process has no access to it.
func (n *namespace) parent() *namespace {
	const getParent = 0xb702 // NS_GET_PARENT
	fd, err := unix.IoctlRetInt(int(n.file.Fd()), getParent)
	if err != nil {
		return nil
	}
	unix.CloseOnExec(fd) // the kernel sets it already
	return newNamespace(os.NewFile(uintptr(fd), "parent"))
}

// end kills the processes in the namespace and in the namespaces below it. It does nothing in the
// namespace of this process.
func (n *namespace) end() {
	own := namespaceOf(os.Getpid())
	defer own.close()
	if n == nil || own == nil || os.SameFile(n.info, own.info) {
		return
	}
	endAll(func(pid int) bool {
		at := namespaceOf(pid)
		for at != nil && !os.SameFile(at.info, n.info) {
			up := at.parent()
			at.close()
			at = up
		}
		at.close()
		return at != nil
	})
}
