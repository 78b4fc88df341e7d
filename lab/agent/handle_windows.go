package agent

import "syscall"

// handle converts a file descriptor for package syscall.
func handle(fd uintptr) syscall.Handle { return syscall.Handle(fd) }
