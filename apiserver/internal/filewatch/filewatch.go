// Package filewatch holds what was read from a file, and reads it anew when the file has changed.
//
// There is no watcher and no goroutine: whoever uses the value looks, for the price of one stat(2), whether the file is still the
// one that was read. So a change is in force for the next use, in virtual time too. A file that can't be read or understood leaves
// the last good value in force, and is told of once.
//
//	pool, err := livefile.Open("ca.crt", parse, func(err error) { log.Error("client CA", "err", err) })
//	…
//	pool.Get() // the newest good one
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

	mu      sync.Mutex
	info    os.FileInfo // of the file when it was last looked at; nil: it was not there
	settled bool        // it was not written just before
	data    []byte      // what it held then
	value   T
}

// unsettled is how close before a look a file's last write may lie to hide another one after it: timestamps are no finer than the
// kernel's clock tick.
const unsettled = 100 * time.Millisecond

// Open reads a file. Parse makes the value of its content and must not keep the data; warn, which may be nil, hears of changes that
// were not taken over.
func Open[T any](name string, parse func(data []byte) (T, error), warn func(error)) (*File[T], error) {
	f := &File[T]{name: name, parse: parse, warn: warn}
	if f.warn == nil {
		f.warn = func(error) {}
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	f.look(info)
	if f.data, err = os.ReadFile(name); err != nil {
		return nil, err
	}
	if f.value, err = parse(f.data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Name is the file's name.
func (f *File[T]) Name() string { return f.name }

// Get is the value of the newest good content.
func (f *File[T]) Get() T {
	info, err := os.Stat(f.name)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		if f.info != nil {
			f.info = nil
			f.warn(fmt.Errorf("read again: %w", err))
		}
		return f.value
	case f.settled && f.info != nil && os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) && f.info.Size() == info.Size():
		return f.value
	}
	f.look(info)
	data, err := os.ReadFile(f.name)
	if err != nil {
		f.warn(fmt.Errorf("read again: %w", err))
		return f.value
	}
	if bytes.Equal(data, f.data) {
		return f.value
	}
	f.data = data
	if value, err := f.parse(data); err != nil {
		f.warn(fmt.Errorf("read %s again: %w", f.name, err))
	} else {
		f.value = value
	}
	return f.value
}

func (f *File[T]) look(info os.FileInfo) {
	f.info, f.settled = info, time.Since(info.ModTime()) > unsettled
}
