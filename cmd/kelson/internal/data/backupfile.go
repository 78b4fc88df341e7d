package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/filelock"
	"kelson.dev/internal/durable"
)

// Unfinished is between the name of a backup and a number in the name of its temporary file.
const Unfinished = ".unfinished-"

// WriteBackup writes a temporary file in the same folder, verifies it and renames it to name. It
// first removes the temporary files of backups to name that were killed.
func WriteBackup(name string, read func(io.Writer) error) (revision uint64, err error) {
	folder, err := os.OpenRoot(filepath.Dir(name)) // Windows can rename and remove its open files
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	base := filepath.Base(name)
	removeUnfinished(folder, base)
	f, temporary, err := createUnfinished(folder, base)
	if err != nil {
		return 0, err
	}
	defer folder.Remove(temporary) // after success, the file was renamed and this does nothing
	defer f.Close()                // ends the lock
	err = read(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			revision, err = archive.Read(f, func(r store.Record) error { _, err := store.CheckRecord(r); return err })
		}
	}
	if err != nil {
		return 0, fmt.Errorf("back up: %w", err)
	}
	if err := folder.Rename(temporary, base); err != nil {
		return 0, err
	}
	opened, err := folder.Open(".")
	if err != nil {
		return revision, err
	}
	return revision, durable.OpenFolder(opened)
}

// createUnfinished creates a temporary file for a backup. The file is locked until it is closed, so
// that other backups to the same name do not remove it. Where the file system has no locks, they do
// not remove it either.
func createUnfinished(folder *os.Root, base string) (f *os.File, name string, err error) {
	for {
		name = base + Unfinished + strconv.FormatUint(uint64(rand.Uint32()), 10)
		f, err = folder.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return nil, "", err
		}
		// Another backup may have removed the file before it was locked, or be about to.
		if locked := filelock.Exclusive(f); !errors.Is(locked, filelock.ErrLocked) && isAt(f, folder, name) {
			return f, name, nil
		}
		f.Close()
		_ = folder.Remove(name)
	}
}

// removeUnfinished removes the temporary files of backups whose processes have ended. It ignores
// errors, because the files may belong to another user.
func removeUnfinished(folder *os.Root, base string) {
	entries, _ := fs.ReadDir(folder.FS(), ".")
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), base+Unfinished)
		if _, err := strconv.ParseUint(number, 10, 32); !ok || err != nil || !e.Type().IsRegular() {
			continue
		}
		// NFS locks only files that are open for writing.
		f, err := folder.OpenFile(e.Name(), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if filelock.Exclusive(f) == nil && isAt(f, folder, e.Name()) {
			_ = folder.Remove(e.Name())
		}
		f.Close()
	}
}

// isAt reports whether an open file still has a name in folder.
func isAt(f *os.File, folder *os.Root, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := folder.Lstat(name)
	return err == nil && os.SameFile(opened, now)
}
