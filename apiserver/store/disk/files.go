package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/filelock"
)

// fileSystem is the part of a file system that a store needs. Tests replace it.
type fileSystem interface {
	// MakeDir creates a directory and its parents, durably.
	MakeDir(dir string) error
	// List returns the names in a directory.
	List(dir string) ([]string, error)
	// Lock creates a file if necessary and locks it. It returns store.ErrLocked if another process
	// holds the lock.
	Lock(name string) (io.Closer, error)
	// Create creates a file that must not exist.
	Create(name string) (file, error)
	Open(name string) (reader, error)
	// Truncate truncates a file, durably.
	Truncate(name string, size int64) error
	Rename(from, to string) error
	Remove(name string) error
	OpenDir(dir string) (openDirectory, error)
}

// openDirectory is an open directory.
type openDirectory interface {
	// Sync makes the creations, renames and removals in the directory durable.
	Sync() error
	io.Closer
}

// syncDir makes the changes in a directory durable.
func syncDir(files fileSystem, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// file is a file that is written sequentially.
type file interface {
	io.WriteCloser
	// Reserve appends that many zeros, which later writes overwrite. Syncs of those writes need not
	// write file metadata.
	Reserve(bytes int64) error
	// Rewind truncates the file to an earlier size, where the next write begins.
	Rewind(size int64) error
	// Trim removes the reserved space after the last write.
	Trim() error
	// Sync makes the written data and the file size durable.
	Sync() error
}

type reader interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// LastWritten returns when the file was written last.
	LastWritten() time.Time
	// Map returns the content of the file, read-only and valid until the process ends; nil if the
	// file is small or cannot be mapped into memory.
	Map() []byte
}

var errNotExist = fs.ErrNotExist

func ignoreMissing(err error) error {
	if errors.Is(err, errNotExist) {
		return nil
	}
	return err
}

func join(dir, name string) string { return filepath.Join(dir, name) }

func (b *Backend) path(name string) string { return join(b.dir, name) }

// osFiles is the fileSystem of the operating system.
type osFiles struct {
	mapFrom int64 // replaces minMapped, if not 0
}

func (osFiles) MakeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return fmt.Errorf("%s does not exist", dir)
	}
	if err := (osFiles{}).MakeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(osFiles{}, parent)
}

func (osFiles) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (osFiles) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return locked(f, filelock.Exclusive(f))
}

// locked returns a file that was locked with the given result, or closes it.
func locked(f *os.File, err error) (io.Closer, error) {
	if errors.Is(err, filelock.ErrLocked) {
		err = store.ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (osFiles) Create(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{file: f}, nil
}

type osFile struct {
	file     *os.File
	at       int64 // end of the written data
	reserved int64 // end of the reserved space
}

func (f *osFile) Write(p []byte) (int, error) {
	n, err := f.file.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *osFile) Reserve(bytes int64) error {
	from := max(f.at, f.reserved)
	n, err := f.file.WriteAt(make([]byte, max(0, f.at+bytes-from)), from)
	f.reserved = from + int64(n)
	return err
}

func (f *osFile) Rewind(size int64) error {
	if err := f.file.Truncate(size); err != nil {
		return err
	}
	f.at, f.reserved = size, size
	return nil
}

func (f *osFile) Trim() error  { return f.file.Truncate(f.at) }
func (f *osFile) Sync() error  { return syncData(f.file) }
func (f *osFile) Close() error { return f.file.Close() }

func (files osFiles) Open(name string) (reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return osReader{f, info.Size(), info.ModTime(), cmp.Or(files.mapFrom, minMapped)}, nil
}

type osReader struct {
	*os.File
	size    int64
	written time.Time
	mapFrom int64
}

func (r osReader) LastWritten() time.Time { return r.written }

func (r osReader) Size() int64 { return r.size }

func (osFiles) Truncate(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (osFiles) Rename(from, to string) error { return os.Rename(from, to) }
func (osFiles) Remove(name string) error     { return os.Remove(name) }

func (osFiles) OpenDir(dir string) (openDirectory, error) { return openDir(dir) }
