package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// faultRun is a store over a lossy file system, and its acknowledged writes.
type faultRun struct {
	t     *testing.T
	rand  *rand.Rand
	files *lossy
	store *store.Store
	disk  *Backend
	every int64 // bytes between checkpoints

	acked    map[store.Key]string // the payload of each key
	revision uint64               // the newest acknowledged
	watched  uint64               // the revision that a client had reached before the start
	// no writes during a checkpoint, so that every run makes the same calls
	oneByOne bool
	// maybe is the one unit whose outcome is unknown.
	maybe map[store.Key]string
}

const gone = "" // the payload of a deleted key

func newFaultRun(t *testing.T, seed uint64) *faultRun {
	return &faultRun{t: t, rand: rand.New(rand.NewPCG(seed, 1)), files: newLossy(rand.New(rand.NewPCG(seed, 2))),
		every: 2000, acked: map[store.Key]string{}}
}

func (w *faultRun) open() error {
	b, err := OpenWith("/data", Options{CheckpointBytes: w.every, files: w.files, reserve: 2500, mark: time.Hour,
		Log: slog.New(slog.NewTextHandler(alarm{w.t}, nil))})
	if err != nil {
		return err
	}
	w.disk = b.(*Backend)
	if w.store, err = store.Open(store.Config{Backend: b, Log: slog.New(slog.DiscardHandler)}); err == nil {
		storetest.Guard(w.t, w.store)
	}
	return err
}

// alarm fails the test when a start reports that acknowledged writes are missing.
type alarm struct{ t *testing.T }

func (a alarm) Write(p []byte) (int, error) {
	a.t.Helper()
	if strings.Contains(string(p), "MISSING") {
		a.t.Errorf("a false alarm: %s", p)
	}
	return len(p), nil
}

// write commits at most n units, until one fails, whose outcome may be unknown.
func (w *faultRun) write(n int) error {
	for i := range n {
		unit := map[store.Key]string{}
		var ops []store.Op
		for range 1 + w.rand.IntN(3) {
			key := store.Key{Resource: "things", Name: fmt.Sprint(w.rand.IntN(8))}
			if _, twice := unit[key]; twice {
				continue
			}
			op := store.Op{Key: key, Expect: store.AnyRevision}
			if _, acked := w.acked[key]; !acked || w.rand.IntN(4) > 0 {
				unit[key] = fmt.Sprintf("%d-%d-%d", w.revision, i, w.rand.Uint32())
				op.Data = fmt.Appendf(nil, `{"metadata":{},"payload":%q,"padding":"%s"}`, unit[key],
					strings.Repeat("x", w.rand.IntN(700)))
			} else {
				unit[key] = gone
			}
			ops = append(ops, op)
		}
		objects, err := w.store.Commit(w.t.Context(), ops...)
		if errors.Is(err, store.ErrNotWritten) {
			return err
		}
		if err != nil {
			w.maybe = unit
			return err
		}
		for w.oneByOne && w.disk.checkpointing.Load() {
			runtime.Gosched()
		}
		w.maybe = nil
		apply(w.acked, unit)
		revision := objects[len(objects)-1].Revision
		if revision <= w.revision {
			w.t.Errorf("revision %d after %d", revision, w.revision)
		}
		w.revision = revision
	}
	return nil
}

func apply(to, unit map[store.Key]string) {
	for key, payload := range unit {
		if payload == gone {
			delete(to, key)
		} else {
			to[key] = payload
		}
	}
}

// check compares the stored state with the acknowledged writes: all of them are stored, and the
// last unit completely or not at all.
func (w *faultRun) check() {
	w.t.Helper()
	got := map[store.Key]string{}
	for r := range w.store.Snapshot().Records() {
		var content struct{ Payload string }
		if err := json.Unmarshal(r.Data, &content); err != nil {
			w.t.Error(err)
		}
		got[r.Key] = content.Payload
	}
	with := maps.Clone(w.acked)
	apply(with, w.maybe)
	switch {
	case maps.Equal(got, w.acked):
	case maps.Equal(got, with):
		w.acked = with
	default:
		w.t.Errorf("there is\n%v\nacknowledged was\n%v\nand perhaps\n%v", got, w.acked, w.maybe)
	}
	w.maybe, w.watched = nil, w.revision
	if now := w.store.Snapshot().Revision(); now < w.revision {
		w.t.Errorf("the revision went back from %d to %d", w.revision, now)
	} else if w.revision > 0 {
		w.revision = now
	}
}

// seeds runs a test with n seeds, starting with KELSON_SEED if that is set. KELSON_FAULTS
// multiplies n.
func seeds(t *testing.T, n int, run func(t *testing.T, seed uint64)) {
	first := randomtest.Seed(t)
	for i := range storetest.Rounds(t, n) {
		seed := first + uint64(i)
		run(t, seed)
		if t.Failed() {
			t.Fatalf("repeat with KELSON_SEED=%d", seed)
		}
	}
}

// Power is lost during any call, many times in the life of one store: while it is opened or
// written, or during a checkpoint.
func TestPowerLoss(t *testing.T) {
	opened := 0
	seeds(t, 100, func(t *testing.T, seed uint64) {
		w := newFaultRun(t, seed)
		for range 8 {
			w.files.powerAt = 1 + w.rand.IntN(120)
			err := w.open()
			if err == nil {
				opened++
				w.check()
				if err = w.write(1 + w.rand.IntN(60)); err == nil && w.rand.IntN(2) == 0 {
					err = w.store.Close() // a clean shutdown
				} else {
					w.store.Close()
				}
			}
			if err != nil && !errors.Is(err, errPower) {
				t.Errorf("%v\n%s", err, w.files)
			}
			w.files.crash()
		}
		if err := w.open(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, w.files)
		}
		w.check()
		w.store.Close()
	})
	if opened == 0 {
		t.Error("power was always lost before there was a store")
	}
}

// A call of any kind fails at any time. The store reports it and refuses further writes, or
// continues if it is certain that nothing was written. After the next start, without a crash in
// between, everything acknowledged is stored, and nothing refused.
func TestFailingCalls(t *testing.T) {
	failed, refused := 0, 0
	seeds(t, 100, func(t *testing.T, seed uint64) {
		w := newFaultRun(t, seed)
		for range 8 {
			w.files.failAt, w.files.failure = w.files.calls+1+w.rand.IntN(150),
				[]error{errDisk, errFull}[w.rand.IntN(2)]
			err := w.open()
			if err == nil {
				w.check()
				if err = w.write(1 + w.rand.IntN(80)); errors.Is(err, store.ErrNotWritten) {
					refused++
					if !errors.Is(err, store.ErrFull) || !errors.Is(w.store.Failed(), store.ErrFull) {
						t.Errorf("a refused write returns %v, and the store reports %v", err, w.store.Failed())
					}
					w.check()
					if err := w.write(1 + w.rand.IntN(5)); err != nil || w.store.Failed() != nil {
						t.Errorf("after a refused write: %v, %v", err, w.store.Failed())
					}
					w.check()
				} else if err != nil {
					failed++
					if !errors.Is(err, store.ErrFailed) || w.store.Failed() == nil {
						t.Errorf("a failed write returns %v", err)
					}
					maybe := w.maybe
					if again := w.write(1); again == nil {
						t.Error("a store that failed was written to")
					}
					w.maybe = maybe
				}
				w.store.Close()
			}
			if err != nil && !errors.Is(err, w.files.failure) {
				t.Errorf("%v\n%s", err, w.files)
			}
			clear(w.files.locked) // as when the process ends
		}
		w.files.failAt = 0
		if err := w.open(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, w.files)
		}
		w.check()
		w.store.Close()
	})
	if failed == 0 || refused == 0 {
		t.Errorf("%d writes failed, %d were refused", failed, refused)
	}
}

// scarce is a file system of a process that may not open another file, while a field is true.
type scarce struct {
	*lossy
	noFile, noDir atomic.Bool
}

func (s *scarce) Create(name string) (file, error) {
	if s.noFile.Load() {
		return nil, syscall.EMFILE
	}
	return s.lossy.Create(name)
}

func (s *scarce) OpenDir(dir string) (openDirectory, error) {
	if s.noDir.Load() {
		return nil, syscall.EMFILE
	}
	return s.lossy.OpenDir(dir)
}

// Clients use all files that the process may open. Writes that need no new log succeed, also if a
// checkpoint is due. Others are refused until the process can open files again.
func TestTooManyOpenFiles(t *testing.T) {
	files := &scarce{lossy: newLossy(rand.New(rand.NewPCG(1, 1)))}
	for i, none := range []*atomic.Bool{&files.noFile, &files.noDir} {
		b, err := OpenWith("/data", Options{files: files, mark: time.Hour, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		s, err := store.Open(store.Config{Backend: b, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		if n := s.Snapshot().Count("things", ""); n != 5*i {
			t.Errorf("%d objects, want %d\n%s", n, 5*i, files)
		}
		put := func(name string) error {
			_, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "things", Name: name},
				Data: []byte(`{"metadata":{}}`)})
			return err
		}
		none.Store(true)
		for range 2 {
			if err := put("refused"); !errors.Is(err, store.ErrNotWritten) || errors.Is(err, store.ErrFull) ||
				s.Failed() != nil {
				t.Errorf("without a log: %v; the store reports %v", err, s.Failed())
			}
		}
		none.Store(false)
		for j := range 5 {
			b.(*Backend).WantCheckpoint()
			if err := put(fmt.Sprint(i, "-", j)); err != nil {
				t.Errorf("write %d: %v", j, err)
			}
			for b.(*Backend).checkpointing.Load() {
				runtime.Gosched()
			}
			none.Store(j < 3)
		}
		s.Close()
		files.crash()
	}
}

// For each single call in a store's life, including those of checkpoints and their cleanup, the
// power is lost during the call in one run, and the call fails in two others: with a device error,
// and for lack of space. After the next start everything acknowledged is stored, no revision is
// assigned twice, and watches continue or get an error.
func TestEveryCall(t *testing.T) {
	for name, inject := range map[string]func(*lossy, int){
		"power is lost":      func(l *lossy, n int) { l.powerAt = n },
		"input/output error": func(l *lossy, n int) { l.failAt, l.failure = n, errDisk },
		"no space left":      func(l *lossy, n int) { l.failAt, l.failure = n, errFull },
	} {
		t.Run(name, func(t *testing.T) {
			injected := map[string]int{}
			seed := randomtest.Seed(t)
			for n, last := 1, false; !last && !t.Failed(); n++ {
				w := newFaultRun(t, seed)
				w.every, w.oneByOne = 1500, true
				inject(w.files, n)
				w.live()
				last = w.files.injected == "" // the store makes fewer than n calls
				injected[w.files.injected]++
				w.files.crash() // the machine crashes: data that was not synced may be lost
				if err := w.open(); err != nil {
					t.Fatalf("call %d, %s: %v\n%s", n, w.files.injected, err, w.files)
				}
				w.check()
				w.resume()
				w.store.Close()
			}
			for _, call := range []string{"create .state", "write .state", "sync .state", "rename .state",
				"remove .state", "remove .log",
				"create .log", "reserve .log", "write .log", "sync .log", "trim .log", "syncdir ", "list ", "lock ",
				"makedir ", "open .log", "read .log", "open .state"} {
				if injected[call] == 0 {
					t.Errorf("no fault in %q; faults in %v", call, injected)
				}
			}
		})
	}
}

// live opens the store, writes through some checkpoints, and closes it, three times or until a call
// fails.
func (w *faultRun) live() {
	for range 3 {
		if err := w.open(); err != nil {
			return
		}
		w.check()
		w.resume()
		err := w.write(12)
		for err == nil && w.disk.logged == 0 { // so that the next start has to read a log
			err = w.write(1)
		}
		w.store.Close()
		if err != nil {
			return
		}
		clear(w.files.locked)
	}
}

// resume watches from the last acknowledged revision, like a client from before the start, and from
// the current revision.
func (w *faultRun) resume() {
	w.t.Helper()
	now := w.store.Snapshot().Revision()
	for _, after := range []uint64{w.watched, now} {
		cursor, err := w.store.Watch("things", after)
		switch {
		case after == 0: // no client existed
		case after < now:
			if !errors.Is(err, store.ErrCompacted) {
				w.t.Errorf("a watch after %d of a store that starts at %d: %v, want an error", after, now, err)
			}
		case err != nil:
			w.t.Errorf("a watch after %d of a store that starts at %d: %v", after, now, err)
		default:
			if events, revision, err := cursor.Next(); len(events) > 0 || revision != now || err != nil {
				w.t.Errorf("a watch after %d: %d events until %d, %v", now, len(events), revision, err)
			}
		}
	}
}

// Bits on the disk change. The start reports damage by file name, with one exception: damage of the
// last write after an unclean shutdown cannot be distinguished from a write that the crash
// interrupted.
func TestFlippedBits(t *testing.T) {
	refused, cut := 0, 0
	seeds(t, 100, func(t *testing.T, seed uint64) {
		w := newFaultRun(t, seed)
		require.NoError(t, w.open())
		// The last unit is separate, so that the loss of only this unit can be recognized.
		require.NoError(t, w.write(20+w.rand.IntN(60)))
		before := maps.Clone(w.acked)
		require.NoError(t, w.write(1))
		inOrder := w.rand.IntN(2) == 0
		w.files.setPower(inOrder)
		w.store.Close()
		w.files.crash()
		name, node := w.pick()
		if len(node.content) == 0 {
			return
		}
		node.content[w.rand.IntN(len(node.content))] ^= 1 << w.rand.IntN(8)

		if err := w.open(); err != nil {
			refused++
			if !errors.Is(err, archive.ErrDamaged) && !errors.Is(err, archive.ErrForeign) &&
				!strings.Contains(err.Error(), "version") || !strings.Contains(err.Error(), name[:20]) {
				t.Errorf("%s: %v", name, err)
			}
			return
		}
		defer w.store.Close()
		got := map[store.Key]string{}
		for r := range w.store.Snapshot().Records() {
			var content struct{ Payload string }
			if err := json.Unmarshal(r.Data, &content); err != nil {
				t.Error(err)
			}
			got[r.Key] = content.Payload
		}
		if !maps.Equal(got, w.acked) {
			cut++
			if inOrder || !maps.Equal(got, before) {
				t.Errorf("%s (closed in order: %t) has\n%v\nacknowledged was\n%v", name, inOrder, got, w.acked)
			}
		}
	})
	if refused == 0 {
		t.Error("no run detected damage")
	}
	t.Logf("%d refused, %d cut", refused, cut)
}

// pick returns one of the files of the store.
func (w *faultRun) pick() (string, *inode) {
	var names []string
	for name := range w.files.dirs["/data"].now {
		if name != lockName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	name := names[w.rand.IntN(len(names))]
	return name, w.files.dirs["/data"].now[name]
}

// A missing log is detected.
func TestMissingLog(t *testing.T) {
	w := newFaultRun(t, 1)
	w.every = 1 << 20
	for range 3 { // one log each
		require.NoError(t, w.open())
		require.NoError(t, w.write(1))
		w.store.Close()
	}
	var logs []string
	for name := range w.files.dirs["/data"].now {
		if strings.HasSuffix(name, logSuffix) {
			logs = append(logs, name)
		}
	}
	slices.Sort(logs)
	delete(w.files.dirs["/data"].now, logs[1])
	if err := w.open(); !errors.Is(err, archive.ErrDamaged) || !strings.Contains(err.Error(), "a file is missing") {
		t.Error(err)
	}
}
