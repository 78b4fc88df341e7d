// Package durable makes changes of the file system survive a crash of the machine.
//
// After a crash of the machine, a file that was created, renamed or removed may have its old name
// again, even if its content was synced: names are part of the folder, which must be synced too.
package durable

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// Folder makes the creations, renames and removals in a folder durable. Windows and some network
// file systems cannot sync folders; there, it does nothing.
func Folder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return OpenFolder(f)
}

// OpenFolder is Folder for an open folder, which it closes.
func OpenFolder(f *os.File) error {
	if runtime.GOOS == "windows" {
		return f.Close()
	}
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
