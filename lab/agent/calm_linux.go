package agent

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// slack is the timer slack of an operator's process.
const slack = 500 * time.Millisecond

// startCalm starts a process with a long timer slack: its sleeps in the kernel may last longer by
// that time. A thread of Go's runtime sleeps for 20 microseconds to 10 milliseconds, and then
// preempts a goroutine that has run for 10 milliseconds, or lets others run while one is in a
// system call. On a busy machine both happen to goroutines that only wait for a processor, and the
// order of goroutines then depends on the machine. With the slack, that takes half a second.
func startCalm(cmd *exec.Cmd) error {
	const setTimerSlack = 29 // PR_SET_TIMERSLACK
	// New processes inherit the slack of the thread that starts them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, uintptr(slack), 0)
	// 0 is the default.
	defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 0, 0) }()
	return cmd.Start()
}
