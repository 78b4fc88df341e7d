// Package storebench compares storage engines under the committer of package store.
//
//	go test -bench . ./storebench
//
// The engines are the log of apiserver/store/disk, pebble, and, as a reference, the minimum for
// durability: one append to one file and one sync per batch, without compaction.
// docs/design/store.md records the figures.
package storebench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
)

// Engine opens a backend in a directory.
type Engine struct {
	Name string
	Open func(dir string) (store.Backend, error)
}

// Engines are the compared engines.
func Engines() []Engine {
	return []Engine{{"disk", disk.Open}, {"pebble", openPebble}, {"append", openAppend}}
}

const separator = "\x00"

// pebbleBackend stores the same records as disk: revision, creation revision and object, under the
// key's path.
type pebbleBackend struct{ db *pebble.DB }

func openPebble(dir string) (store.Backend, error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	return &pebbleBackend{db}, nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

var newest = []byte("\xffrevision")

func (b *pebbleBackend) Load(each func(store.Record) error) (revision uint64, err error) {
	it, err := b.db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value := it.Value()
		if string(it.Key()) == string(newest) {
			revision = binary.BigEndian.Uint64(value)
			continue
		}
		parts := strings.Split(string(it.Key()), separator)
		err := each(store.Record{
			Key:      store.Key{Resource: parts[0], Namespace: parts[1], Name: parts[2]},
			Revision: binary.BigEndian.Uint64(value),
			Created:  binary.BigEndian.Uint64(value[8:]),
			Data:     append([]byte(nil), value[16:]...),
		})
		if err != nil {
			return 0, err
		}
	}
	return revision, it.Error()
}

func (b *pebbleBackend) Append(records []store.Record) error {
	batch := b.db.NewBatch()
	defer batch.Close()
	for _, r := range records {
		key := []byte(r.Key.Resource + separator + r.Key.Namespace + separator + r.Key.Name)
		if r.Data == nil {
			if err := batch.Delete(key, nil); err != nil {
				return err
			}
			continue
		}
		value := make([]byte, 0, 16+len(r.Data))
		value = binary.BigEndian.AppendUint64(value, r.Revision)
		value = binary.BigEndian.AppendUint64(value, r.Created)
		if err := batch.Set(key, append(value, r.Data...), nil); err != nil {
			return err
		}
	}
	last := records[len(records)-1].Revision
	if err := batch.Set(newest, binary.BigEndian.AppendUint64(nil, last), nil); err != nil {
		return err
	}
	return batch.Commit(pebble.Sync)
}

func (b *pebbleBackend) Checkpoint() func(context.Context, iter.Seq[store.Record]) error { return nil }

func (b *pebbleBackend) Close() error { return b.db.Close() }

// appendBackend is one file of batches, each with its length and checksum.
type appendBackend struct {
	file *os.File
	buf  strings.Builder
}

func openAppend(dir string) (store.Backend, error) {
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &appendBackend{file: f}, nil
}

func (b *appendBackend) Load(each func(store.Record) error) (revision uint64, err error) {
	live := map[store.Key]store.Record{}
	r := bufio.NewReaderSize(b.file, 1<<20)
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			break
		} else if err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(r, body); err != nil {
			return 0, err
		}
		if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(head[4:]) {
			return 0, errors.New("checksum")
		}
		var records []store.Record
		if err := gob.NewDecoder(strings.NewReader(string(body))).Decode(&records); err != nil {
			return 0, err
		}
		for _, r := range records {
			live[r.Key], revision = r, r.Revision
		}
	}
	for _, r := range live {
		if r.Data == nil {
			continue
		}
		if err := each(r); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

func (b *appendBackend) Append(records []store.Record) error {
	b.buf.Reset()
	if err := gob.NewEncoder(&b.buf).Encode(records); err != nil {
		return err
	}
	body := b.buf.String()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	head = binary.BigEndian.AppendUint32(head, crc32.ChecksumIEEE([]byte(body)))
	if _, err := b.file.WriteString(string(head) + body); err != nil {
		return err
	}
	return b.file.Sync()
}

func (b *appendBackend) Checkpoint() func(context.Context, iter.Seq[store.Record]) error { return nil }

func (b *appendBackend) Close() error { return b.file.Close() }
