package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

func thing(name string) store.Key {
	return store.Key{Resource: "things", Namespace: "default", Name: name}
}

func create(name string) store.Op {
	return store.Op{Key: thing(name), Data: fmt.Appendf(nil, `{"metadata":{"uid":"uid-of-%s"}}`, name)}
}

// slow is a backend whose Append waits until the test sends its result to let.
type slow struct {
	storetest.Backend
	let chan error
}

func newSlow() *slow {
	b := &slow{let: make(chan error)}
	b.Before = func([]store.Record) error { return <-b.let }
	return b
}

// outcome is the state of a Commit in the background.
type outcome struct {
	mu   sync.Mutex
	over bool
	objs []*store.Object
	err  error
}

func commit(ctx context.Context, s *store.Store, ops ...store.Op) *outcome {
	o := &outcome{}
	go func() {
		objs, err := s.Commit(ctx, ops...)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.over, o.objs, o.err = true, objs, err
	}()
	synctest.Wait()
	return o
}

func (o *outcome) want(t *testing.T, over bool, target error) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != over || !errors.Is(o.err, target) {
		t.Errorf("answered: %v, with %v and %v; want %v, with error %v", o.over, o.objs, o.err, over, target)
	}
}

// A write is returned, and visible to reads, indexes and watches, only after the backend stored it.
// Writes that wait share one append.
func TestWritesAreInvisibleUntilDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlow()
		s := store.OpenChecked(t, store.Config{Backend: b})
		before := s.Snapshot().Revision()
		cursor, err := s.Watch("things", before)
		require.NoError(t, err)
		first := commit(t.Context(), s, create("a"))
		// All of them are in the next batch, including a conflict with an earlier op of it.
		later := make([]*outcome, 100)
		for i := range later {
			later[i] = commit(t.Context(), s, create(fmt.Sprint("b", i/2)))
		}
		first.want(t, false, nil)
		if _, err := s.At(before + 1); s.Snapshot().Revision() != before || !errors.Is(err, store.ErrFuture) {
			t.Errorf("revision %d is read (%v) before it is durable", s.Snapshot().Revision(), err)
		}
		if events, revision, _ := cursor.Next(); len(events) > 0 || revision != before {
			t.Errorf("%d events up to %d before they are durable", len(events), revision)
		}
		if s.Snapshot().ByUID("uid-of-a") != nil {
			t.Error("the index shows a write that is not durable")
		}
		ready := cursor.Ready()

		b.let <- nil
		<-ready
		synctest.Wait()
		first.want(t, true, nil)
		if events, revision, _ := cursor.Next(); len(events) != 1 || revision != before+1 ||
			s.Snapshot().Revision() != before+1 {
			t.Errorf("%d events up to %d", len(events), revision)
		}
		for _, o := range later {
			o.want(t, false, nil)
		}
		b.let <- nil
		synctest.Wait()
		for i, o := range later {
			o.want(t, true, map[bool]error{true: store.ErrExists}[i%2 == 1])
		}
		if got := b.Appends(); got != 2 {
			t.Errorf("%d appends for 101 commits, want 2: commits that wait share an append", got)
		}
		if got := s.Snapshot().Count("things", ""); got != 51 {
			t.Errorf("%d things", got)
		}
	})
}

// After a failed append, every write fails and no failed write becomes visible. Reads continue, and
// the store that is opened next has all acknowledged writes.
func TestFailedAppendIsFinal(t *testing.T) {
	broken := errors.New("input/output error")
	for _, survives := range []bool{false, true} {
		t.Run(fmt.Sprintf("survives=%v", survives), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSlow()
				if survives { // Append fails after the data was written
					b.After, b.Before = b.Before, nil
				}
				s := store.OpenChecked(t, store.Config{Backend: b})
				commit(t.Context(), s, create("kept"))
				b.let <- nil
				synctest.Wait()
				before := s.Snapshot()
				cursor, err := s.Watch("", before.Revision())
				require.NoError(t, err)

				failing := []*outcome{commit(t.Context(), s, create("lost"))}
				failing = append(failing, commit(t.Context(), s, create("queued")),
					commit(t.Context(), s, create("kept")))
				b.let <- broken
				synctest.Wait()
				failing = append(failing, commit(t.Context(), s, create("later")),
					commit(t.Context(), s, store.Op{Key: thing("kept"), Expect: store.AnyRevision}))
				for _, o := range failing {
					o.want(t, true, store.ErrFailed)
					o.want(t, true, broken)
				}
				if s.Snapshot() != before {
					t.Error("a failed write is visible")
				}
				if events, revision, err := cursor.Next(); len(events) > 0 || revision != before.Revision() ||
					err != nil {
					t.Errorf("%d events up to %d, %v", len(events), revision, err)
				}
				if got := b.Appends(); got != 2 {
					t.Errorf("%d appends, want 2: none after the failed one", got)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if err := b.Err(); err != nil {
					t.Error(err)
				}

				reopened := storetest.New(t, store.Config{Backend: b})
				if stored := reopened.Snapshot().Get(thing("lost")) != nil; stored != survives {
					t.Errorf("after reopening: stored %v", stored)
				}
				if reopened.Snapshot().Get(thing("kept")) == nil {
					t.Error("an acknowledged write is lost")
				}
			})
		})
	}
}

func TestContextEndsInQueueAndInBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlow()
		s := store.OpenChecked(t, store.Config{Backend: b})
		ctx, cancel := context.WithCancel(t.Context())
		taken := commit(ctx, s, create("taken"))
		queued := commit(ctx, s, create("queued"))
		cancel()
		synctest.Wait()
		queued.want(t, true, context.Canceled)
		taken.want(t, false, nil) // the outcome is not known yet
		b.let <- nil
		synctest.Wait()
		taken.want(t, true, nil)
		if sn := s.Snapshot(); sn.Get(thing("taken")) == nil || sn.Get(thing("queued")) != nil {
			t.Errorf("revision %d has the wrong objects", sn.Revision())
		}
		if got := b.Appends(); got != 1 {
			t.Errorf("%d appends", got)
		}
	})
}

func TestCloseCompletesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlow()
		s := store.OpenChecked(t, store.Config{Backend: b})
		writes := []*outcome{commit(t.Context(), s, create("a")), commit(t.Context(), s, create("b"))}
		go s.Close()
		synctest.Wait()
		commit(t.Context(), s, create("c")).want(t, true, store.ErrClosed)
		b.let <- nil
		b.let <- nil
		synctest.Wait()
		for _, o := range writes {
			o.want(t, true, nil)
		}
	})
}

func TestLoadRefusesMalformedRecords(t *testing.T) {
	b := &storetest.Backend{}
	err := b.Append([]store.Record{{Key: thing("a"), Revision: 7, Created: 7, Data: []byte(`{"metadata":`)}})
	require.NoError(t, err)
	if _, err := store.Open(store.Config{Backend: b}); !errors.Is(err, store.ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

// The store releases events that are no longer in the log or in a retained snapshot.
func TestOldEventsAreReleased(t *testing.T) {
	s := store.OpenChecked(t, store.Config{Retain: 100})
	cursor, err := s.Watch("", 0) // an unused cursor retains nothing
	require.NoError(t, err)
	var all []weak.Pointer[store.Object]
	for i := range 1000 {
		op := create("a")
		if op.Expect = store.AnyRevision; i%3 == 2 {
			op.Data = nil
		}
		objs, err := s.Commit(t.Context(), op)
		require.NoError(t, err)
		all = append(all, weak.Make(objs[0]))
	}
	runtime.GC()
	live := 0
	for _, p := range all {
		if p.Value() != nil {
			live++
		}
	}
	if live < 100 || live > 150 {
		t.Errorf("%d of %d objects are held for a log of 100 events", live, len(all))
	}
	if _, _, err := cursor.Next(); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("next: %v", err)
	}
}

func TestMemoCachesOnlySuccess(t *testing.T) {
	s := store.OpenChecked(t, store.Config{})
	objs, err := s.Commit(t.Context(), create("a"))
	require.NoError(t, err)
	type memoKey struct{}
	made := 0
	for i := range 4 {
		v, err := objs[0].Memo(memoKey{}, func() (any, error) {
			if made++; i == 0 {
				return nil, errors.New("not yet")
			}
			return made, nil
		})
		if i == 0 && err == nil || i > 0 && (err != nil || v != 2) {
			t.Errorf("call %d: %v, %v", i, v, err)
		}
	}
}

// The backend reports that nothing was written. Only the affected writers get the error, their
// writes are not visible, and the store accepts further writes.
func TestRefusedAppendIsNotFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlow()
		wait := b.Before
		b.Before = func(records []store.Record) error {
			if err := wait(records); err != nil {
				return err
			}
			for _, r := range records {
				if r.Key.Name == "secret" {
					return fmt.Errorf("%w: no key", store.ErrNotWritten)
				}
			}
			return nil
		}
		s := store.OpenChecked(t, store.Config{Backend: b})
		defer s.Close()
		before := s.Snapshot().Revision()
		first := commit(t.Context(), s, create("first"))
		batch := []*outcome{commit(t.Context(), s, create("a")), commit(t.Context(), s, create("secret")),
			commit(t.Context(), s, create("a")), commit(t.Context(), s, create("b"))}
		b.let <- nil // first
		b.let <- nil // all four, of which one is refused
		for range 3 {
			b.let <- nil // each that changes something
		}
		synctest.Wait()
		first.want(t, true, nil)
		for i, want := range []error{nil, store.ErrNotWritten, store.ErrExists, nil} {
			batch[i].want(t, true, want)
		}
		if sn := s.Snapshot(); sn.Revision() != before+3 || sn.Get(thing("secret")) != nil ||
			sn.ByUID("uid-of-secret") != nil || s.Failed() != nil {
			t.Errorf("revision %d after %d, %v", sn.Revision(), before, s.Failed())
		}
	})
}

// limitedBackend is a backend without space until the test grants it.
type limitedBackend struct {
	storetest.Backend
	full        atomic.Bool
	spaceChecks atomic.Int64
}

func (b *limitedBackend) Recover() error {
	b.spaceChecks.Add(1)
	if b.full.Load() {
		return store.ErrFull
	}
	return nil
}

// A store without space reports that, checks for space periodically, and accepts writes again.
func TestFullBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limitedBackend{}
		b.Before = func([]store.Record) error {
			if b.full.Load() {
				return fmt.Errorf("%w: /data: no space left on device", store.ErrFull)
			}
			return nil
		}
		s := store.OpenChecked(t, store.Config{Backend: b, Log: slog.New(slog.DiscardHandler)})
		defer s.Close()
		commit(t.Context(), s, create("a")).want(t, true, nil)
		b.full.Store(true)
		for range 3 {
			commit(t.Context(), s, create("b")).want(t, true, store.ErrFull)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if !errors.Is(s.Failed(), store.ErrFull) || b.spaceChecks.Load() != 10 {
			t.Errorf("%v, %d checks for space in ten seconds", s.Failed(), b.spaceChecks.Load())
		}
		b.full.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if s.Failed() != nil {
			t.Errorf("there is space: %v", s.Failed())
		}
		commit(t.Context(), s, create("b")).want(t, true, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b.spaceChecks.Load() != 11 {
			t.Errorf("%d checks for space", b.spaceChecks.Load())
		}
	})
}

// The log of a store without space for large writes, which accepts small ones, has one line for
// each refused write. That of a full store says when it began and ended to refuse all.
func TestLogOfFullBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limitedBackend{}
		b.Before = func(records []store.Record) error {
			if b.full.Load() || len(records[0].Data) > 1000 {
				return store.ErrFull
			}
			return nil
		}
		var log bytes.Buffer
		s := store.OpenChecked(t, store.Config{Backend: b, Log: slog.New(slog.NewTextHandler(&log, nil))})
		defer s.Close()
		large := create("large")
		large.Data = fmt.Appendf(nil, `{"metadata":{"uid":%q}}`, strings.Repeat("x", 2000))
		logged := func(refused, began, ended int) {
			t.Helper()
			synctest.Wait()
			text := log.String()
			log.Reset()
			if strings.Count(text, "for a write;") != refused || strings.Count(text, "until space is free") != began ||
				strings.Count(text, "free again") != ended {
				t.Errorf("want %d refused writes, %d beginnings and %d ends: %s", refused, began, ended, text)
			}
		}
		for range 5 {
			commit(t.Context(), s, large).want(t, true, store.ErrFull)
			time.Sleep(5 * time.Second)
		}
		logged(5, 0, 0)
		b.full.Store(true)
		for range 5 {
			commit(t.Context(), s, create("b")).want(t, true, store.ErrFull)
			time.Sleep(5 * time.Second)
		}
		logged(1, 1, 0)
		b.full.Store(false)
		time.Sleep(5 * time.Second)
		logged(0, 0, 1)
	})
}
