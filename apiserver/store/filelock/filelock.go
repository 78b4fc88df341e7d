// Package filelock locks files against other processes.
//
// A lock belongs to an open file. It ends when the file is closed or the process dies. Locks are
// advisory: they have no effect on reads and writes, which other processes can still do.
//
//	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
//	…
//	if err := filelock.Exclusive(f); errors.Is(err, filelock.ErrLocked) {
package filelock

import (
	"errors"
	"os"
)

// ErrLocked means that another open file has a lock that excludes the requested one.
var ErrLocked = errors.New("locked by another process")

// Exclusive locks a file. It does not wait: [ErrLocked] means that the file has another lock.
func Exclusive(f *os.File) error { return lock(f, true) }

// Shared locks a file against exclusive locks. It does not wait: [ErrLocked] means that the file
// has an exclusive lock.
func Shared(f *os.File) error { return lock(f, false) }
