//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// tooManyFiles reports whether an error means that the process or the system cannot open another
// file. Connections of clients use the same limit.
func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func openDir(dir string) (openDirectory, error) { return os.Open(dir) }
