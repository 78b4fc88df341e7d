// Package filewatch holds a value parsed from a file, and parses the file again when it has
// changed.
//
// The package runs no goroutine. [File.Get] compares the file's metadata with one stat(2)
// call, so a change takes effect at the next use, in virtual time too. If a changed file can't be
// read or parsed, the last good value stays in use, and the error is reported once.
//
//	pool, err := filewatch.Open("ca.crt", parse, func(err error) { log.Error("reload client CA", "err", err) })
//	…
//	pool.Get() // the newest good value
package filewatch

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"
)

// File is a value of type T from a file. It is safe for concurrent use.
type File[T any] struct {
	name  string
	parse func(data []byte) (T, error)
	warn  func(error)

	mu     sync.Mutex
	info   os.FileInfo // of the file at the last check; nil if it did not exist
	stable bool        // the last write was at least minAge before the check
	data   []byte      // content at the last check
	value  T
}

// minAge is the age that the last write must have before file metadata is trusted. Timestamps have
// the resolution of the kernel's clock tick, so a later write in the same tick does not change
// them.
const minAge = 100 * time.Millisecond

// Open reads a file. parse returns the value of its content and must not keep the data. warn, which
// may be nil, receives the errors of reloads.
func Open[T any](name string, parse func(data []byte) (T, error), warn func(error)) (*File[T], error) {
	f := &File[T]{name: name, parse: parse, warn: warn}
	if f.warn == nil {
		f.warn = func(error) {}
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	f.setInfo(info)
	if f.data, err = os.ReadFile(name); err != nil {
		return nil, err
	}
	if f.value, err = parse(f.data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Name returns the name of the file.
func (f *File[T]) Name() string { return f.name }

// Get returns the value of the newest good content.
func (f *File[T]) Get() T {
	info, err := os.Stat(f.name)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		if f.info != nil {
			f.info = nil
			f.warn(fmt.Errorf("reload: %w", err))
		}
		return f.value
	case f.stable && f.info != nil && os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) &&
		f.info.Size() == info.Size():
		return f.value
	}
	f.setInfo(info)
	data, err := os.ReadFile(f.name)
	if err != nil {
		f.warn(fmt.Errorf("reload: %w", err))
		return f.value
	}
	if bytes.Equal(data, f.data) {
		return f.value
	}
	f.data = data
	if value, err := f.parse(data); err != nil {
		f.warn(fmt.Errorf("reload %s: %w", f.name, err))
	} else {
		f.value = value
	}
	return f.value
}

func (f *File[T]) setInfo(info os.FileInfo) {
	f.info, f.stable = info, time.Since(info.ModTime()) > minAge
}
