package disk_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/server/store"
)

// A damaged file is told from a sound one: it is refused with an error, or what is damaged is not in use.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]store.Op, 300)
	for i := range ops {
		ops[i] = store.Op{Key: crashKey(i, i, ""), Data: fmt.Appendf(nil, `{"metadata":{},"payload":"%0800d"}`, i)}
	}
	for range 2 {
		if _, err := s.Commit(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		for i := range ops {
			ops[i].Expect = store.AnyRevision
		}
	}
	want := s.Snapshot()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, "kelson.db"))
	if err != nil {
		t.Fatal(err)
	}

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	// The first two pages are the engine's roots. When one is bad it takes the other, for a crash may have torn the newest.
	const page = 4096
	somewhere := func(data []byte) int { return 2*page + r.IntN(len(data)-2*page) }
	refused := 0
	for name, damage := range map[string]func(data []byte) []byte{
		"cut":    func(data []byte) []byte { return data[:r.IntN(len(data))] },
		"zeroed": func(data []byte) []byte { clear(data[somewhere(data)/page*page:][:page]); return data },
		"noise": func(data []byte) []byte {
			for i := somewhere(data) / page * page; i%page < page-1; i++ {
				data[i] = byte(r.IntN(256))
			}
			return data
		},
		"flipped": func(data []byte) []byte {
			for range 1 + r.IntN(100) {
				data[somewhere(data)] ^= 1 << r.IntN(8)
			}
			return data
		},
	} {
		for i := range 10 {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "kelson.db"), damage(append([]byte(nil), good...)), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openStore(dir)
			if err != nil {
				refused++
				if !strings.Contains(err.Error(), dir) {
					t.Errorf("%s %d: the error does not name the directory: %v", name, i, err)
				}
				continue
			}
			got := s.Snapshot()
			for obj := range want.Scan("things", "", store.Key{}) {
				if again := got.Get(obj.Key); again == nil || string(again.Data) != string(obj.Data) {
					t.Errorf("%s %d: %v is another one now", name, i, obj.Key)
				}
			}
			if got.Count("things", "") != len(ops) {
				t.Errorf("%s %d: %d objects", name, i, got.Count("things", ""))
			}
			s.Close()
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
