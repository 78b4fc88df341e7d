package child

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes the kernel kill the process that cmd will start when the thread that starts
// it ends. It has no effect on systems other than Linux.
func EndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
