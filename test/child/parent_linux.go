package child

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes the kernel kill the process of cmd when the thread that starts cmd ends. Call
// it before cmd.Start. It has no effect on systems other than Linux.
func EndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
