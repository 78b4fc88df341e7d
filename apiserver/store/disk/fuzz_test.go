package disk

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// directory is a file system with a data directory of these files.
func directory(contents map[string][]byte) *lossy {
	l := newLossy(nil)
	d := &lossyDir{now: map[string]*inode{}, durable: map[string]*inode{}}
	for name, content := range contents {
		d.now[name] = &inode{content: bytes.Clone(content), synced: bytes.Clone(content)}
		d.durable[name] = d.now[name]
	}
	l.dirs["/data"] = d
	return l
}

// FuzzDirectory opens a directory whose state and logs have arbitrary content. If the store accepts
// them, it has the same state when it is opened again, and accepts a write.
func FuzzDirectory(f *testing.F) {
	read := func(revision uint64, suffix string) []byte {
		content, err := os.ReadFile(filepath.Join("testdata", "format1", fileName(revision, suffix)))
		require.NoError(f, err)
		return content
	}
	state, next, log := read(19, stateSuffix), read(19, logSuffix), read(21, logSuffix)
	f.Add(state, next, log)
	f.Add(state, next[:len(next)-endSize], log)
	f.Add(state, next, log[:len(log)-30])
	f.Add(state, next, log[:logHeaderSize])
	f.Add(state[:len(state)-1], next, []byte("KELSONLG"))
	f.Add([]byte("KELSONST"), []byte("KLOG"), []byte{})
	f.Fuzz(func(t *testing.T, state, first, second []byte) {
		files := directory(map[string][]byte{fileName(19, stateSuffix): state, fileName(19, logSuffix): first,
			fileName(21, logSuffix): second})
		open := func() (*store.Store, error) {
			b, err := OpenWith("/data", Options{files: files})
			if err != nil {
				return nil, err
			}
			return store.Open(store.Config{Backend: b, Log: slog.New(slog.DiscardHandler)})
		}
		content := func(s *store.Store) map[store.Key]uint64 {
			all := map[store.Key]uint64{}
			for r := range s.Snapshot().Records() {
				all[r.Key] = r.Revision
			}
			return all
		}
		s, err := open()
		if err != nil {
			return
		}
		was, revision := content(s), s.Snapshot().Revision()
		s.Close()
		if s, err = open(); err != nil {
			t.Fatalf("open the directory again: %v", err)
		}
		if !maps.Equal(content(s), was) || s.Snapshot().Revision() != revision {
			t.Errorf("the state differs after opening again: %v at %d, not %v at %d", content(s),
				s.Snapshot().Revision(), was, revision)
		}
		op := store.Op{Key: store.Key{Resource: "things", Name: "new"}, Data: []byte(`{"metadata":{}}`),
			Expect: store.AnyRevision}
		if _, err := s.Commit(t.Context(), op); err != nil {
			t.Errorf("it can't be written to: %v", err)
		}
		s.Close()
		if s, err = open(); err != nil {
			t.Fatalf("after a write: %v", err)
		}
		if s.Snapshot().Get(op.Key) == nil {
			t.Error("a write is lost")
		}
		s.Close()
	})
}

// FuzzUpgrade reads a file of the first format with arbitrary content. That must not cause a panic,
// or more reads than twice the size of the file.
func FuzzUpgrade(f *testing.F) {
	for _, n := range []int{0, 3, 40} {
		name := filepath.Join(f.TempDir(), oldFile)
		db, err := bolt.Open(name, 0o600, &bolt.Options{PageSize: 1 << 10, NoSync: true, NoGrowSync: true})
		require.NoError(f, err)
		err = db.Update(func(tx *bolt.Tx) error {
			metadata, err := tx.CreateBucket([]byte("store"))
			if err != nil {
				return err
			}
			metadata.Put([]byte("format"), []byte("1"))
			metadata.Put([]byte("revision"), make([]byte, 8))
			objects, err := tx.CreateBucket([]byte("objects"))
			for i := range n {
				objects.Put([]byte{byte(i)}, bytes.Repeat([]byte{byte(i)}, 20*i))
			}
			return err
		})
		require.NoError(f, err)
		db.Close()
		content, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(content)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		tree, err := openOld(bytes.NewReader(content), int64(len(content)))
		if err == nil {
			for _, name := range []string{"store", "objects"} {
				read := 0
				tree.bucket(name, func(key, value []byte) error { read += len(key) + len(value); return nil })
				if read > 2*len(content) {
					t.Errorf("%d bytes were read of %d", read, len(content))
				}
			}
		}
		readOldTree(bytes.NewReader(content), int64(len(content)))
	})
}
