package serve

import "syscall"

// nodeAttributes let the node end with this process, however that ends.
func nodeAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
