package serve

import "syscall"

// nodeAttributes make the system end the node when this process ends, even if it is killed.
func nodeAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
