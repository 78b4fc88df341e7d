package disk

import (
	"errors"
	"os"
	"syscall"
)

// syncData syncs content and size but not timestamps, which would cost a separate write.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
