//go:build unix

package serve

import "syscall"

// inBackground returns attributes of a process that does not end with the terminal of this one.
func inBackground() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
