package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/filelock"
)

// The first format was one file of the database engine bbolt:
//
//	objects  resource \0 namespace \0 name → checksum (4) revision (8) created (8) object (JSON)
//	store    "format"   → "1"
//	         "revision" → the newest revision (8)
//
// Numbers are big-endian; the checksum is CRC-32C of the key and the rest of the value.
const (
	oldFile = "kelson.db"
	// oldKept is the name of the old file after the upgrade, which does not delete it.
	oldKept = "kelson.db.upgraded"
)

// upgrade converts a store in the first format to the current one. After a crash, the next start
// begins the upgrade again.
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
	return syncDir(b.fs, b.dir)
}

func readOld(name string) (records []store.Record, revision uint64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	// Programs that wrote the first format locked the file.
	if err := filelock.Shared(f); err != nil {
		return nil, 0, store.ErrLocked
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return readOldTree(f, info.Size())
}

func readOldTree(file io.ReaderAt, size int64) (records []store.Record, revision uint64, err error) {
	tree, err := openOld(file, size)
	if err != nil {
		return nil, 0, err
	}
	metadata := map[string][]byte{}
	found, err := tree.bucket("store", func(key, value []byte) error { metadata[string(key)] = value; return nil })
	switch {
	case err != nil:
		return nil, 0, err
	case !found:
		return nil, 0, archive.ErrForeign
	case string(metadata["format"]) != "1":
		return nil, 0, fmt.Errorf("format %q is not supported, want %q", metadata["format"], "1")
	case len(metadata["revision"]) != 8:
		return nil, 0, fmt.Errorf("%w: missing revision", archive.ErrDamaged)
	}
	revision = binary.BigEndian.Uint64(metadata["revision"])
	tree.left = tree.size / tree.pageSize // the second walk reads the first pages again
	found, err = tree.bucket("objects", func(k, v []byte) error {
		parts := bytes.Split(k, []byte{0})
		if len(parts) != 3 || len(v) < 20 || archive.Sum(k, v[4:]) != binary.BigEndian.Uint32(v) {
			return fmt.Errorf("%w: record %q", archive.ErrDamaged, k)
		}
		r := store.Record{
			Key:      store.Key{Resource: string(parts[0]), Namespace: string(parts[1]), Name: string(parts[2])},
			Revision: binary.BigEndian.Uint64(v[4:]),
			Created:  binary.BigEndian.Uint64(v[12:]),
			Data:     bytes.Clone(v[20:]),
		}
		if _, err := store.CheckRecord(r); err != nil || r.Revision > revision {
			return fmt.Errorf("%w: record %q of revision %d in a store at %d: %v", archive.ErrDamaged, k, r.Revision,
				revision, err)
		}
		records = append(records, r)
		return nil
	})
	if err == nil && !found {
		err = archive.ErrForeign
	}
	return records, revision, err
}
