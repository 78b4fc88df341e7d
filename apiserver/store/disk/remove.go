package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"kelson.dev/apiserver/store"
)

// ErrNoObject means that a directory has no object of a key.
var ErrNoObject = errors.New("the directory has no such object")

// Remove takes one object out of a data directory that no Backend has open, even if the object is
// the reason why the directory cannot be loaded. It writes the state without the object, at the
// next revision: clients that watch have to list again. It calls save with the stored bytes of each
// state of the object that it finds; the last call has the newest. It keeps the present files; the
// next Load removes them.
func Remove(dir string, key store.Key, save func(data io.Reader) error) (err error) {
	if _, err := os.Stat(join(dir, lockName)); err != nil {
		return fmt.Errorf("%s is not a data directory: %w", dir, err)
	}
	opened, err := OpenWith(dir, Options{})
	if err != nil {
		return err
	}
	b := opened.(*Backend)
	defer func() { err = errors.Join(err, b.lock.Close()) }()
	l, err := list(b.fs, dir)
	if err != nil {
		return err
	}
	l.without = &without{key: key, save: save}
	var records []store.Record
	found, err := l.read(func(r store.Record) error { records = append(records, r); return nil })
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	if !l.without.found {
		return fmt.Errorf("%s %s/%s: %w", key.Resource, key.Namespace, key.Name, ErrNoObject)
	}
	last, err := readMark(b.fs, dir)
	if err != nil {
		return err
	}
	if _, err := writeState(context.Background(), b.fs, dir, max(found.revision, last.revision)+1,
		slices.Values(records)); err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	return nil
}
