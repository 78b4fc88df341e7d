package disk

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// isFull also accepts ENOSPC, which Windows does not return: file systems of tests do.
func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED) || errors.Is(err, syscall.ENOSPC)
}

// syncDir has no effect: Windows cannot sync directories. NTFS keeps a log of changes to them.
func syncDir(string) error { return nil }
