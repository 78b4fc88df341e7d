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

// tooManyFiles also accepts EMFILE, as isFull does ENOSPC.
func tooManyFiles(err error) bool {
	return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES) || errors.Is(err, syscall.EMFILE)
}

func openDir(string) (openDirectory, error) { return noDirectory{}, nil }

// noDirectory has no effect: Windows cannot sync directories. NTFS keeps a log of changes to them.
type noDirectory struct{}

func (noDirectory) Sync() error  { return nil }
func (noDirectory) Close() error { return nil }
