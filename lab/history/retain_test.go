package history_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/lab/history"
)

// plane is a store with a Retainer.
type plane struct {
	*store.Store
	dir string
	log bytes.Buffer
}

func startPlane(t testing.TB, dir string, limits history.Limits) *plane {
	t.Helper()
	p := &plane{dir: dir}
	retainer := history.NewRetainer(filepath.Join(dir, history.Folder),
		history.RetainerConfig{Limits: limits, Log: slog.New(slog.NewTextHandler(&p.log, nil))})
	backend, err := disk.OpenWith(dir, disk.Options{NoSync: true, KeepAfter: retainer.Durable,
		CheckpointBytes: 64 << 10, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	p.Store, err = store.Open(store.Config{Backend: retainer.Backend(backend)})
	must(t, err)
	return p
}

func (p *plane) put(t testing.TB, key store.Key, value string) uint64 {
	t.Helper()
	objects, err := p.Commit(t.Context(), store.Op{Key: key,
		Data:   fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{},"data":{"v":%q}}`, value),
		Expect: store.AnyRevision})
	must(t, err)
	return objects[0].Revision
}

func (p *plane) delete(t testing.TB, key store.Key) {
	t.Helper()
	_, err := p.Commit(t.Context(), store.Op{Key: key, Expect: store.AnyRevision})
	must(t, err)
}

func configMap(name string) store.Key {
	return store.Key{Resource: "configmaps", Namespace: "default", Name: name}
}

func openHistory(t testing.TB, dir string) *history.History {
	t.Helper()
	h, err := history.Open(dir)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

// Every state of a store with random writes, restarts, checkpoints and crashes that truncate the
// history's files equals the state of a model.
func TestRetainedStatesMatchStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	files := filepath.Join(dir, history.Folder)
	p := startPlane(t, dir, history.Limits{})
	type moment struct {
		revision uint64
		state    map[string]string
	}
	var moments []moment
	state := map[string]string{}
	// A start makes the history durable, and the log of the store may then lack these writes. So a
	// crash loses at most what was written since.
	size := func() int64 {
		info, err := os.Stat(newestFile(t, files))
		must(t, err)
		return info.Size()
	}
	durable := size()
	for i := range 600 {
		name := fmt.Sprintf("c-%d", random.IntN(10))
		if _, exists := state[name]; exists && random.IntN(4) == 0 {
			p.delete(t, configMap(name))
			delete(state, name)
		} else {
			state[name] = fmt.Sprint(i, strings.Repeat("x", random.IntN(2000)))
			p.put(t, configMap(name), state[name])
		}
		copied := map[string]string{}
		for name, value := range state {
			copied[name] = value
		}
		moments = append(moments, moment{p.Snapshot().Revision(), copied})
		if random.IntN(100) == 0 {
			must(t, p.Close())
			if left := max(durable, size()-random.Int64N(200)); random.IntN(2) == 0 {
				// a crash before the end was durable
				must(t, os.Truncate(newestFile(t, files), left))
			}
			p = startPlane(t, dir, history.Limits{})
			durable = size()
		}
	}
	must(t, p.Close())
	h := openHistory(t, dir)
	for _, m := range moments {
		at := h.At(m.revision)
		if got := at.Objects("configmaps"); len(got) != len(m.state) {
			t.Fatalf("revision %d: %d objects, want %d", m.revision, len(got), len(m.state))
		}
		for name, want := range m.state {
			_, data, ok, err := at.Get(history.Key(configMap(name)))
			if err != nil || !ok || !bytes.Contains(data, []byte(`"`+want+`"`)) {
				t.Fatalf("revision %d: %s: %v %v %.100s; want %.20s", m.revision, name, ok, err, data, want)
			}
		}
	}
	if start, _, ok := h.Start(); !ok || start > moments[0].revision {
		t.Error(start, ok)
	}
}

// A Retainer keeps the contract of the Backend that it wraps.
func TestRetainerKeepsTheContract(t *testing.T) {
	storetest.RunBackend(t, func(t *testing.T) storetest.Reopen {
		dir := t.TempDir()
		return func() (store.Backend, error) {
			retainer := history.NewRetainer(filepath.Join(dir, history.Folder),
				history.RetainerConfig{Log: slog.New(slog.DiscardHandler)})
			backend, err := disk.OpenWith(dir, disk.Options{KeepAfter: retainer.Durable})
			if err != nil {
				return nil, err
			}
			return retainer.Backend(backend), nil
		}
	})
}

func newestFile(t testing.TB, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.history"))
	must(t, err)
	return names[len(names)-1]
}

// After a crash of the machine, the Retainer adds missing versions from the log.
func TestLostEndOfAHistoryIsReadFromTheLog(t *testing.T) {
	dir := t.TempDir()
	p := startPlane(t, dir, history.Limits{})
	for i := range 100 {
		p.put(t, configMap("a"), fmt.Sprint(i))
	}
	must(t, p.Close())
	newest := newestFile(t, filepath.Join(dir, history.Folder))
	must(t, os.Truncate(newest, 200))
	p = startPlane(t, dir, history.Limits{})
	must(t, p.Close())
	n := len(slices.Collect(openHistory(t, dir).Versions(history.Key(configMap("a")))))
	assert.Equalf(t, n, 100, "versions")
	assert.Containsf(t, p.log.String(), "added versions from the log", "log: %s", &p.log)
}

// Writes without the history leave a gap, which is logged. The state after it is complete.
func TestHistoryWithAGap(t *testing.T) {
	dir := t.TempDir()
	p := startPlane(t, dir, history.Limits{})
	p.put(t, configMap("kept"), "1")
	p.put(t, configMap("removed"), "1")
	must(t, p.Close())

	backend, err := disk.OpenWith(dir, disk.Options{CheckpointBytes: 1})
	must(t, err)
	s, err := store.Open(store.Config{Backend: backend})
	must(t, err)
	plain := &plane{Store: s}
	plain.put(t, configMap("kept"), "2")
	plain.delete(t, configMap("removed"))
	plain.put(t, configMap("new"), "1")
	must(t, s.Close())
	p = startPlane(t, dir, history.Limits{})
	revision := p.Snapshot().Revision()
	must(t, p.Close())
	h := openHistory(t, dir)
	var names []string
	for _, v := range h.At(max(revision, h.Newest())).Objects("configmaps") {
		names = append(names, v.Key.Name)
	}
	assert.Slicef(t, names, []string{"kept", "new"}, "objects")
}

// The Retainer removes old versions; the remaining files have the whole state.
func TestLimits(t *testing.T) {
	for name, limits := range map[string]history.Limits{"age": {Age: time.Hour}, "size": {Bytes: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				p := startPlane(t, dir, limits)
				first := p.put(t, configMap("old"), "never changed")
				random := rand.New(rand.NewPCG(1, 2))
				for i := range 600 {
					var noise strings.Builder
					for noise.Len() < 10_000 {
						fmt.Fprintf(&noise, "%016x", random.Uint64())
					}
					p.put(t, configMap(fmt.Sprint("c-", i%7)), noise.String())
					time.Sleep(time.Minute)
				}
				must(t, p.Close())
				h := openHistory(t, dir)
				start, began, ok := h.Start()
				if !ok || start <= first {
					t.Fatalf("the history starts at %d, %v: the first revision was %d", start, ok, first)
				}
				if age := time.Since(began); limits.Age > 0 && (age < limits.Age || age > limits.Age*3/2) {
					t.Errorf("the history is %v old; the limit is %v", age, limits.Age)
				}
				var size int64
				entries, err := os.ReadDir(filepath.Join(dir, history.Folder))
				must(t, err)
				for _, e := range entries {
					info, err := e.Info()
					must(t, err)
					size += info.Size()
				}
				if limits.Bytes > 0 && (size > limits.Bytes || size < limits.Bytes/2) {
					t.Errorf("%d bytes; the limit is %d", size, limits.Bytes)
				}
				if _, data, ok, err := h.At(start).Get(history.Key(configMap("old"))); !ok || err != nil ||
					!bytes.Contains(data, []byte("never changed")) {
					t.Errorf("the oldest state lacks an object that is older: %v %v", ok, err)
				}
			})
		})
	}
}

// If the history cannot be written, the Retainer ends, and the store continues. The next start adds
// the missing versions.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	p := startPlane(t, dir, history.Limits{Bytes: 1 << 20})
	files := filepath.Join(dir, history.Folder)
	p.put(t, configMap("a"), "1")
	must(t, os.Rename(files, files+".away"))
	must(t, os.WriteFile(files, nil, 0o600)) // no file can be created there
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		p.put(t, configMap("a"), fmt.Sprint(random.Uint64(), strings.Repeat(fmt.Sprint(random.Uint64()), 500)))
	}
	must(t, p.Close())
	must(t, os.Remove(files))
	must(t, os.Rename(files+".away", files))
	p = startPlane(t, dir, history.Limits{})
	must(t, p.Close())
	n := len(slices.Collect(openHistory(t, dir).Versions(history.Key(configMap("a")))))
	assert.Equalf(t, n, 101, "versions")
}

// A history has the names of custom kinds from their definitions.
func TestNamesOfCustomKinds(t *testing.T) {
	dir := t.TempDir()
	p := startPlane(t, dir, history.Limits{})
	_, err := p.Commit(t.Context(), store.Op{Key: store.Key{Resource: "customresourcedefinitions.apiextensions.k8s.io",
		Name: "ats.example.com"}, Expect: store.AnyRevision, Data: []byte(
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"ats.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"ats","singular":"at","kind":"At","shortNames":["cron"]}}}`)})
	must(t, err)
	_, err = p.Commit(t.Context(), store.Op{Key: store.Key{Resource: "ats.example.com", Namespace: "default",
		Name: "x"}, Expect: store.AnyRevision, Data: []byte(
		`{"apiVersion":"example.com/v1","kind":"At","metadata":{"name":"x"}}`)})
	must(t, err)
	must(t, p.Close())
	h := openHistory(t, dir)
	for _, word := range []string{"at", "cron", "ats.example.com"} {
		if found := h.Find(word); len(found) != 1 || found[0].Version != "v1" || !found[0].Namespaced {
			t.Errorf("%s: %v", word, found)
		}
	}
}

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]history.Limits{
		"24h": {Age: 24 * time.Hour}, "7d": {Age: 7 * 24 * time.Hour}, "10GiB": {Bytes: 10 << 30}, "1G": {Bytes: 1e9},
		"500MB":     {Bytes: 500e6},
		"24h,10GiB": {Age: 24 * time.Hour, Bytes: 10 << 30}, "10GiB,90m": {Age: 90 * time.Minute, Bytes: 10 << 30},
	} {
		if got, err := history.ParseLimits(strings.Split(text, ",")...); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1h", "1s", "10XiB", "24h,7d", "1GiB,2GiB", "100", "-5GiB", "99999d",
		"ever"} {
		if got, err := history.ParseLimits(strings.Split(text, ",")...); err == nil ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestOpenWithoutHistory(t *testing.T) {
	empty := t.TempDir()
	_, err := history.Open(empty)
	assert.ErrorContains(t, err, "--history")
	must(t, os.WriteFile(filepath.Join(empty, "00000000000000000001.history"),
		[]byte("something else that is long enough"), 0o600))
	_, err = history.Open(empty)
	assert.ErrorIs(t, err, history.ErrDamaged)
}

// BenchmarkRetainedWrites commits changes of 10,000 objects of 1 KB by 16 writers, durably, with
// and without a history.
func BenchmarkRetainedWrites(b *testing.B) {
	for _, keep := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "with history"}[keep], func(b *testing.B) {
			dir := b.TempDir()
			var retainer *history.Retainer
			opts := disk.Options{}
			if keep {
				retainer = history.NewRetainer(filepath.Join(dir, history.Folder), history.RetainerConfig{})
				opts.KeepAfter = retainer.Durable
			}
			backend, err := disk.OpenWith(dir, opts)
			must(b, err)
			if keep {
				backend = retainer.Backend(backend)
			}
			s, err := store.Open(store.Config{Backend: backend})
			must(b, err)
			write := func(i uint64) {
				data := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-%d"},"spec":{"image":"%0900d"},"status":{"i":%d}}`, i%10_000, i%10_000, i)
				_, err := s.Commit(context.Background(),
					store.Op{Key: store.Key{Resource: "pods", Namespace: "default", Name: fmt.Sprint("web-", i%10_000)},
						Data: data, Expect: store.AnyRevision})
				assert.NoError(b, err)
			}
			for i := range uint64(10_000) {
				write(i)
			}
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					write(rand.Uint64())
				}
			})
			b.StopTimer()
			must(b, s.Close())
		})
	}
}
