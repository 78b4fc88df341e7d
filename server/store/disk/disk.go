// Package disk keeps a store in a directory on local disk.
//
// The directory holds one file, kelson.db, of the engine bbolt: a copy-on-write B+ tree whose newest consistent root is found after a
// crash at any instant. Every batch of writes is one transaction, synced before it is acknowledged.
//
//	objects  resource \0 namespace \0 name → checksum (4) revision (8) created (8) object (JSON)
//	store    "format"   → the version of this layout
//	         "revision" → the newest revision (8), which the deletion of the newest object must not take along
//
// Numbers are big-endian, of so many bytes; the checksum is CRC-32C of the key and what follows. One process at a time uses a directory; a second one gets [store.ErrLocked] at once.
//
//	backend, err := disk.Open(dir)
//	…
//	s, err := store.Open(store.Config{Backend: backend})
package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"kelson.dev/server/store"
)

// Backend is a [store.Backend] over a directory.
type Backend struct {
	dir string
	db  *bolt.DB
}

const (
	format     = "1"
	headerSize = 20
)

var checksum = crc32.MakeTable(crc32.Castagnoli)

var (
	objectsBucket = []byte("objects")
	storeBucket   = []byte("store")
	formatKey     = []byte("format")
	revisionKey   = []byte("revision")
)

// Load implements [store.Backend].
func (b *Backend) Load(each func(store.Record) error) (revision uint64, err error) {
	err = b.view(func(tx *bolt.Tx) error {
		newest := tx.Bucket(storeBucket).Get(revisionKey)
		if len(newest) != 8 {
			return fmt.Errorf("%w: no revision", errDamaged)
		}
		revision = binary.BigEndian.Uint64(newest)
		return tx.Bucket(objectsBucket).ForEach(func(k, v []byte) error {
			r, err := decode(k, v)
			if err != nil {
				return err
			}
			if r.Revision > revision {
				return fmt.Errorf("%w: object %q has revision %d, but the newest is %d", errDamaged, k, r.Revision, revision)
			}
			return each(r)
		})
	})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", b.dir, err)
	}
	return revision, nil
}

// Append implements [store.Backend].
func (b *Backend) Append(records []store.Record) error {
	if len(records) == 0 {
		return nil
	}
	err := b.update(func(tx *bolt.Tx) error {
		objects := tx.Bucket(objectsBucket)
		for i := range records {
			r := &records[i]
			key := encodeKey(r.Key)
			if r.Data == nil {
				if err := objects.Delete(key); err != nil {
					return err
				}
				continue
			}
			if err := objects.Put(key, encode(key, r)); err != nil {
				return err
			}
		}
		return putRevision(tx, records[len(records)-1].Revision)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", b.dir, err)
	}
	return nil
}

func (b *Backend) view(do func(*bolt.Tx) error) error {
	return guard(func() error { return b.db.View(do) })
}

func (b *Backend) update(do func(*bolt.Tx) error) error {
	return guard(func() error { return b.db.Update(do) })
}

func putRevision(tx *bolt.Tx, revision uint64) error {
	return tx.Bucket(storeBucket).Put(revisionKey, binary.BigEndian.AppendUint64(nil, revision))
}

// Close implements [store.Backend].
func (b *Backend) Close() error {
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", b.dir, err)
	}
	return nil
}

func encodeKey(k store.Key) []byte {
	key := make([]byte, 0, len(k.Resource)+len(k.Namespace)+len(k.Name)+2)
	key = append(append(key, k.Resource...), 0)
	key = append(append(key, k.Namespace...), 0)
	return append(key, k.Name...)
}

func encode(key []byte, r *store.Record) []byte {
	value := make([]byte, 4, headerSize+len(r.Data))
	value = binary.BigEndian.AppendUint64(value, r.Revision)
	value = binary.BigEndian.AppendUint64(value, r.Created)
	value = append(value, r.Data...)
	binary.BigEndian.PutUint32(value, sum(key, value))
	return value
}

func sum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, checksum), checksum, value[4:])
}

// decode copies: what the engine gives is valid during the transaction only.
func decode(k, v []byte) (store.Record, error) {
	parts := bytes.Split(k, []byte{0})
	if len(parts) != 3 || len(v) < headerSize {
		return store.Record{}, fmt.Errorf("%w: record %q of %d bytes", errDamaged, k, len(v))
	}
	if sum(k, v) != binary.BigEndian.Uint32(v) {
		return store.Record{}, fmt.Errorf("%w: checksum of %q", errDamaged, k)
	}
	return store.Record{
		Key:      store.Key{Resource: string(parts[0]), Namespace: string(parts[1]), Name: string(parts[2])},
		Revision: binary.BigEndian.Uint64(v[4:]),
		Created:  binary.BigEndian.Uint64(v[12:]),
		Data:     bytes.Clone(v[headerSize:]),
	}, nil
}
