package inside

import "syscall"

func handle(fd int) syscall.Handle { return syscall.Handle(fd) }
