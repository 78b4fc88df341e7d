package disk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/internal/require"
)

const oldName = "kelson.db"

// writeOld creates a directory in the first format with bbolt, the engine of that time.
func writeOld(t testing.TB, dir string, revision uint64, records ...store.Record) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, oldName), 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true})
	require.NoError(t, err)
	table := crc32.MakeTable(crc32.Castagnoli)
	put := func(tx *bolt.Tx, records []store.Record) error {
		objects, err := tx.CreateBucketIfNotExists([]byte("objects"))
		for _, r := range records {
			key := []byte(r.Key.Resource + "\x00" + r.Key.Namespace + "\x00" + r.Key.Name)
			value := binary.BigEndian.AppendUint64(make([]byte, 4), r.Revision)
			value = append(binary.BigEndian.AppendUint64(value, r.Created), r.Data...)
			binary.BigEndian.PutUint32(value, crc32.Update(crc32.Checksum(key, table), table, value[4:]))
			err = errors.Join(err, objects.Put(key, value))
		}
		metadata, other := tx.CreateBucketIfNotExists([]byte("store"))
		if err := errors.Join(err, other); err != nil {
			return err
		}
		return errors.Join(metadata.Put([]byte("format"), []byte("1")),
			metadata.Put([]byte("revision"), binary.BigEndian.AppendUint64(nil, revision)))
	}
	half := len(records) / 2 // two transactions, so that both meta pages are used
	err = db.Update(func(tx *bolt.Tx) error { return put(tx, records[:half]) })
	err = errors.Join(err, db.Update(func(tx *bolt.Tx) error { return put(tx, records[half:]) }), db.Close())
	require.NoError(t, err)
}

func oldRecords(n int) (all []store.Record) {
	for i := range n {
		long := strings.Repeat("x", i%7*i%3000)
		if i == 5 {
			long = strings.Repeat("y", 100_000) // over several pages
		}
		all = append(all, store.Record{Key: store.Key{Resource: "things", Namespace: fmt.Sprint(i % 3),
			Name: fmt.Sprint(i)}, Revision: uint64(i + 3), Created: uint64(i + 2),
			Data: fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"},"long":%q}`, i+3, long)})
	}
	return all
}

// The store converts a directory in the first format, with its revision, and keeps its file, also
// after a crash during the conversion.
func TestUpgrade(t *testing.T) {
	for _, n := range []int{0, 1, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir, records := t.TempDir(), oldRecords(n)
			revision := uint64(n + 9)
			writeOld(t, dir, revision, records...)
			// A start that failed leaves the lock.
			require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
			if r, err := disk.Check(dir); err == nil || !strings.Contains(err.Error(), "first format") {
				t.Errorf("a check before the upgrade: %v %v", r, err)
			}
			want := map[store.Key]string{}
			for _, r := range records {
				want[r.Key] = fmt.Sprint(r.Revision, r.Created, string(r.Data))
			}
			for round := range 4 {
				s, err := openStore(dir)
				require.NoError(t, err)
				if got := contentOf(s); !maps.Equal(got, want) || s.Snapshot().Revision() != revision {
					t.Fatalf("round %d: %d objects at %d, want %d at %d", round, len(got), s.Snapshot().Revision(),
						len(want), revision)
				}
				if round == 1 { // later writes go to the new format
					objects, err := s.Commit(t.Context(),
						store.Op{Key: store.Key{Resource: "things", Name: "new"}, Data: []byte(`{"metadata":{}}`)})
					require.NoError(t, err)
					revision = objects[0].Revision
					want = contentOf(s)
				}
				require.NoError(t, s.Close())
				if round == 2 { // as if a crash had lost the rename of the file
					require.NoError(t, os.Rename(filepath.Join(dir, oldName+".upgraded"),
						filepath.Join(dir, oldName)))
				}
			}
			if _, err := os.Stat(filepath.Join(dir, oldName+".upgraded")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A damaged file of the first format is refused and not modified.
func TestUpgradeOfDamage(t *testing.T) {
	dir := t.TempDir()
	writeOld(t, dir, 50, oldRecords(20)...)
	name := filepath.Join(dir, oldName)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	bad := bytes.Replace(whole, []byte(`"long":"x`), []byte(`"long":"z`), -1)
	if bytes.Equal(bad, whole) {
		t.Fatal("nothing to damage")
	}
	for what, content := range map[string][]byte{"another byte": bad, "half of it": whole[:len(whole)/2]} {
		require.NoError(t, os.WriteFile(name, content, 0o600))
		if s, err := openStore(dir); !errors.Is(err, archive.ErrDamaged) || !strings.Contains(err.Error(), oldName) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				s.Close()
			}
		}
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, content) {
			t.Errorf("%s: the file was changed: %v", what, err)
		}
	}
	require.NoError(t, os.WriteFile(name, whole, 0o600))
	other, err := bolt.Open(name, 0o600, nil)
	require.NoError(t, err)
	if _, err := openStore(dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("open while another process has the file: %v", err)
	}
	require.NoError(t, other.Close())
	if s, err := openStore(dir); err != nil {
		t.Error(err)
	} else {
		s.Close()
	}
}

// Directories that an earlier build wrote in the current format are read correctly. The files never
// change: any later format must read them, too.
func TestFormat(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "format1"))))
	if r, err := disk.Check(dir); err != nil ||
		r.String() != "sound: 24 objects at revision 39; state at revision 19, 1169 bytes; 3 logs since, 20 write batches, 1823 bytes" {
		t.Errorf("%v, %v", r, err)
	}
	s, err := openStore(dir)
	require.NoError(t, err)
	defer s.Close()
	var names []string
	for obj := range s.Snapshot().Scan("things", "", store.Key{}) {
		names = append(names, fmt.Sprint(obj.Key.Namespace, "/", obj.Key.Name, "@", obj.Revision, ",", obj.Created))
	}
	const want = "0/0@32,2 0/1@18,18 0/10@12,12 0/11@28,28 0/12@14,14 0/14@16,16 0/2@34,4 0/4@36,6 0/5@22,22 0/6@38,8 0/7@24,24 0/9@26,26 " +
		"1/0@17,17 1/1@33,3 1/10@27,27 1/11@13,13 1/12@29,29 1/13@15,15 1/2@19,19 1/3@35,5 1/5@37,7 1/6@23,23 1/7@39,9 1/8@25,25"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
