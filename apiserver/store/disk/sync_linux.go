package disk

import (
	"errors"
	"os"
	"syscall"
)

// syncData syncs content and size, and leaves out the times, which cost a write of their own.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
