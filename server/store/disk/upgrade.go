package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"kelson.dev/server/store"
	"kelson.dev/server/store/archive"
)

// The first format was one file of the engine bbolt:
//
//	objects  resource \0 namespace \0 name → checksum (4) revision (8) created (8) object (JSON)
//	store    "format"   → "1"
//	         "revision" → the newest revision (8)
//
// Numbers are big-endian; the checksum is CRC-32C of the key and what follows.
const (
	oldFile = "kelson.db"
	// oldKept is the file after the upgrade: nothing is deleted that a user might want back.
	oldKept = "kelson.db.upgraded"
)

// upgrade makes a store in the first format one in the present one. After a crash it begins anew.
func (b *Backend) upgrade() error {
	if _, ok := b.fs.(osFiles); !ok {
		return nil
	}
	name := b.path(oldFile)
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l, err := list(b.fs, b.dir)
	if err != nil {
		return err
	}
	if len(l.states) == 0 {
		records, revision, err := readOld(name)
		if err != nil {
			return fmt.Errorf("%s: %w", oldFile, err)
		}
		if _, err := writeState(context.Background(), b.fs, b.dir, revision, slices.Values(records)); err != nil {
			return err
		}
	}
	if err := b.fs.Rename(name, b.path(oldKept)); err != nil {
		return err
	}
	return b.fs.SyncDir(b.dir)
}

func readOld(name string) (records []store.Record, revision uint64, err error) {
	// The engine panics over a file that contradicts itself, and mapped memory faults when it can't be read.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", archive.ErrDamaged, r)
		}
	}()
	db, err := bolt.Open(name, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Nanosecond})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, 0, store.ErrLocked
	}
	if err != nil {
		return nil, 0, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		about, objects := tx.Bucket([]byte("store")), tx.Bucket([]byte("objects"))
		if about == nil || objects == nil {
			return archive.ErrForeign
		}
		if format := about.Get([]byte("format")); string(format) != "1" {
			return fmt.Errorf("it has format %q; this program knows format %q", format, "1")
		}
		newest := about.Get([]byte("revision"))
		if len(newest) != 8 {
			return fmt.Errorf("%w: no revision", archive.ErrDamaged)
		}
		revision = binary.BigEndian.Uint64(newest)
		return objects.ForEach(func(k, v []byte) error {
			parts := bytes.Split(k, []byte{0})
			if len(parts) != 3 || len(v) < 20 || archive.Sum(k, v[4:]) != binary.BigEndian.Uint32(v) {
				return fmt.Errorf("%w: record %q", archive.ErrDamaged, k)
			}
			records = append(records, store.Record{
				Key:      store.Key{Resource: string(parts[0]), Namespace: string(parts[1]), Name: string(parts[2])},
				Revision: binary.BigEndian.Uint64(v[4:]),
				Created:  binary.BigEndian.Uint64(v[12:]),
				Data:     bytes.Clone(v[20:]),
			})
			return nil
		})
	})
	return records, revision, err
}
