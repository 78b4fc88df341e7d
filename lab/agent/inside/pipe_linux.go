package inside

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// pipe is a file descriptor of a pipe that blocks. Its system calls do not release the processor,
// so no other goroutine runs meanwhile: the order of goroutines does not depend on the time that
// the other process needs.
type pipe struct{ fd int }

func (p pipe) read(into []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(p.fd), uintptr(unsafe.Pointer(&into[0])),
			uintptr(len(into)))
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

func (p pipe) write(data []byte) error {
	for len(data) > 0 {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.fd), uintptr(unsafe.Pointer(&data[0])),
			uintptr(len(data)))
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return errno
		default:
			data = data[n:]
		}
	}
	return nil
}

// pause sleeps in real time. Other goroutines may run meanwhile.
func pause() {
	// The process has started with a long timer slack; see agent.Start.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, uintptr(time.Microsecond), 0)
	t := syscall.NsecToTimespec(int64(pauseTime))
	_, _, _ = syscall.Syscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

const setTimerSlack = 29 // PR_SET_TIMERSLACK

// threadsSleep reports whether all other threads of the process wait in the kernel: they neither
// run nor wait for a processor or a disk.
func threadsSleep(int) bool {
	self := strconv.Itoa(syscall.Gettid())
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return true
	}
	for _, thread := range threads {
		if thread.Name() == self {
			continue
		}
		stat, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The state follows the name, which is in parentheses.
		if at := bytes.LastIndexByte(stat, ')') + 2; at < len(stat) && (stat[at] == 'R' || stat[at] == 'D') {
			return false
		}
	}
	return true
}
