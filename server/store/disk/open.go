package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"kelson.dev/server/store"
)

const (
	fileName = "kelson.db"
	// newName is the file while it is being made. A crash then leaves nothing that looks like a store.
	newName = "kelson.db.new"
)

// Open opens the store in a directory and locks it. What is missing is made, for the user alone: the directory and those above it
// (mode 0700), and the file (0600). [store.ErrLocked], without waiting, when another Backend has it open, in this process or another.
func Open(dir string) (store.Backend, error) {
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	file := filepath.Join(dir, fileName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if err := create(dir, file); err != nil {
			return nil, describe(dir, err)
		}
	}
	db, err := openFile(file)
	if err != nil {
		return nil, describe(dir, err)
	}
	if err := guard(func() error { return db.View(checkFormat) }); err != nil {
		db.Close()
		return nil, describe(dir, err)
	}
	return &Backend{dir: dir, db: db}, nil
}

func describe(dir string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("data directory %s: %w", dir, store.ErrLocked)
	}
	return fmt.Errorf("open data directory %s: %w", dir, err)
}

// openFile leaves the file locked until the process ends if the engine panics over it.
func openFile(name string) (db *bolt.DB, err error) {
	err = guard(func() (err error) {
		db, err = bolt.Open(name, 0o600, &bolt.Options{
			Timeout:      time.Nanosecond, // for the lock: one attempt
			FreelistType: bolt.FreelistMapType,
			NoStatistics: true,
		})
		return err
	})
	return db, err
}

// errDamaged says that the file is not what was written.
var errDamaged = errors.New("damaged file")

// guard makes errors of the engine's panics over a file that contradicts itself, and of the faults when mapped memory cannot be read:
// the disk fails, or the file was cut short.
func guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	return do()
}

// create makes an empty store under another name and moves it into place.
//
// Two processes may do so at once. The lock on the new file decides: whoever has it, on a file that was not there before, and sees
// that no store is in place, is the only one. One who comes later finds either that file locked or the store in place.
func create(dir, file string) error {
	name := filepath.Join(dir, newName)
	db, err := openFile(name)
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
		// An earlier attempt was cut short.
		if err := os.Remove(name); err != nil {
			return err
		}
		db, err = openFile(name)
	}
	if err != nil {
		return err
	}
	defer db.Close() // after the move: the lock goes with the file
	if _, err := os.Stat(file); err == nil {
		return os.Remove(name)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{objectsBucket, storeBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if err := putRevision(tx, 0); err != nil {
			return err
		}
		return tx.Bucket(storeBucket).Put(formatKey, []byte(format))
	})
	if err != nil {
		return err
	}
	if err := os.Rename(name, file); err != nil {
		return err
	}
	return syncDir(dir)
}

func checkFormat(tx *bolt.Tx) error {
	b := tx.Bucket(storeBucket)
	if b == nil || tx.Bucket(objectsBucket) == nil {
		return fmt.Errorf("%s was not made by this program", fileName)
	}
	if found := b.Get(formatKey); string(found) != format {
		return fmt.Errorf("%s has format %q; this program knows format %q", fileName, found, format)
	}
	return nil
}

// makeDir makes a directory and those above it, and syncs the parents of what it made: after a crash a directory is there only then.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return fmt.Errorf("%s is not there", dir)
	}
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
