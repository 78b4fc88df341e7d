package serve

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// inBackground returns attributes of a process that does not end with the console of this one.
func inBackground() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}
