package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/require"
)

// checkBudget compares what the budget has counted with what the store holds.
func checkBudget(t *testing.T, s *Store) {
	t.Helper()
	s.mu.RLock()
	defer s.mu.RUnlock()
	logged, pages := int64(0), int64(0)
	memos := map[*memo]bool{}
	inLogs := map[*Event]uint8{}
	for _, l := range s.logs {
		for _, c := range l.chunks {
			for _, e := range c.events {
				inLogs[e]++
			}
		}
	}
	for e, n := range inLogs {
		if e.kept != n {
			t.Fatalf("event %d: in %d logs, counted %d", e.Revision(), n, e.kept)
		}
		logged += e.bytes()
		memos[&e.memo], memos[&e.Object.memo] = true, true
		if e.Prev != nil {
			memos[&e.Prev.memo] = true
		}
	}
	for _, p := range s.pins {
		pages += p.held
	}
	live := int64(0)
	s.current.Load().view.objects.Scan(func(_ string, obj *Object) bool {
		live += obj.bytes() + indexBytes
		memos[&obj.memo] = true
		return true
	})
	b := s.budget
	if b.logs.Load() != logged || b.pages.Load() != pages || b.live.Load() != live {
		t.Fatalf("counted logs %d, pages %d, live %d; the store holds %d, %d, %d", b.logs.Load(), b.pages.Load(),
			b.live.Load(), logged, pages, live)
	}
	checkCache(t, &b.memos, memos)
}

// checkCache fails if the size of a cache is wrong, or if it holds a memo that the store does not
// reach any more.
func checkCache(t *testing.T, c *cache, reachable map[*memo]bool) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	used, length := int64(0), 0
	for r := c.first; r != nil; r = r.next {
		if !reachable[r.memo] {
			t.Fatal("the cache holds the memo of an object that the store does not have")
		}
		if r.memo.results != r || r.charged != r.bytes || r.memo.sealed {
			t.Fatalf("a memo with %d bytes is counted with %d", r.bytes, r.charged)
		}
		used += r.charged
		length++
	}
	if used != c.used.Load() || length != c.length {
		t.Fatalf("counted %d bytes in %d memos, want %d in %d", c.used.Load(), c.length, used, length)
	}
	for m := range reachable {
		if m.results != nil && !m.results.linked {
			t.Fatal("the memo of an object is not in the cache")
		}
	}
}

// Traffic of a day, in virtual time, stays within the budget: creates, patches, deletes and Events
// that expire, of several resources. Informers that follow live are not disturbed, whatever they
// encode.
func TestTrafficStaysWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8 << 20
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := OpenChecked(t, Config{Budget: func(int64) int64 { return limit }})
		resources := []string{"configmaps", "pods", "widgets.example.com", "events"}
		for i := range 20 {
			go followLive(ctx, t, s, append(resources, "")[i%5], i)
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		names := map[string][]string{}
		for i := range 12_000 {
			time.Sleep(7 * time.Second)
			writeRandom(t, s, rnd, resources, names, i)
			if i%50 == 0 {
				encodeList(t, s, resources[rnd.IntN(len(resources))], i%3)
			}
			if i%200 == 0 {
				s.Pin(s.Snapshot())
			}
			synctest.Wait()
			b := s.Stats().Budget
			sum := int64(0)
			for _, p := range b.Parts {
				sum += p.Bytes
			}
			if sum > limit+limit/64 { // a memo grew while a publication had the lock
				t.Fatalf("after %d writes: %d bytes, want at most %d: %+v", i, sum, limit, b.Parts)
			}
			if i%3000 == 0 {
				checkBudget(t, s)
			}
		}
		checkBudget(t, s)
		for _, p := range s.Stats().Budget.Parts {
			if p.Evicted == 0 && p.Name != PartPages {
				t.Errorf("the load did not evict %s", p.Name)
			}
		}
	})
}

// followLive encodes each event as a watch does. It fails the test if the log does not have the
// next event.
func followLive(ctx context.Context, t *testing.T, s *Store, resource string, form int) {
	cursor, err := s.Watch(resource, s.Snapshot().Revision())
	for err == nil {
		var events []*Event
		if events, _, err = cursor.Next(); err != nil {
			break
		}
		for _, e := range events {
			_, err = e.Memo(form%3, func() (any, error) { return e.Object.Memo(form%3, encoding(e.Object)) })
		}
		cursor.Delivered()
		select {
		case <-ctx.Done():
			return
		case <-cursor.Ready():
		}
	}
	if !errors.Is(err, ErrClosed) {
		t.Errorf("watch of %q: %v", resource, err)
	}
}

func encoding(obj *Object) func() (any, error) {
	return func() (any, error) { return append([]byte("encoded "), obj.Data...), nil }
}

func encodeList(t *testing.T, s *Store, resource string, form int) {
	for obj := range s.Snapshot().Scan(resource, "", Key{}) {
		_, err := obj.Memo(form, encoding(obj))
		require.NoError(t, err)
	}
}

func writeRandom(t *testing.T, s *Store, rnd *rand.Rand, resources []string, names map[string][]string, i int) {
	resource := resources[min(rnd.IntN(8), len(resources)-1)]
	have := names[resource]
	op := Op{Key: Key{Resource: resource, Namespace: "default", Name: fmt.Sprint("o", i)}, Expect: AnyRevision}
	op.Data = fmt.Appendf(nil, `{"metadata":{"name":"o","labels":{"app":"a"}},"text":%q}`,
		strings.Repeat("x", rnd.IntN(2000)))
	switch {
	case len(have) > 300 || len(have) > 0 && rnd.IntN(3) == 0:
		op.Key.Name, op.Data = have[0], nil
		names[resource] = have[1:]
	case len(have) > 0 && rnd.IntN(2) == 0:
		op.Key.Name = have[rnd.IntN(len(have))]
	default:
		names[resource] = append(have, op.Key.Name)
	}
	_, err := s.Commit(t.Context(), op)
	require.NoError(t, err)
}

// Memos that are used again survive those that are not.
func TestUnusedMemosAreEvictedFirst(t *testing.T) {
	const limit = 1 << 20
	s := OpenChecked(t, Config{Budget: func(int64) int64 { return limit }})
	var objects []*Object
	for i := range 1000 {
		data := fmt.Appendf(nil, `{"metadata":{"name":"o"},"text":%q}`, strings.Repeat("x", 2000))
		made, err := s.Commit(t.Context(), Op{Key: Key{Resource: "things", Name: fmt.Sprint(i)}, Data: data})
		require.NoError(t, err)
		objects = append(objects, made[0])
	}
	hot, made := objects[0], 0
	for _, obj := range objects[1:] {
		for range 2 {
			_, err := hot.Memo("form", func() (any, error) { made++; return encoding(hot)() })
			require.NoError(t, err)
		}
		_, err := obj.Memo("form", encoding(obj))
		require.NoError(t, err)
	}
	if made != 1 {
		t.Errorf("the encoding in use was made %d times", made)
	}
	checkBudget(t, s)
	if used := s.budget.memos.used.Load(); used > limit || used < limit/2 {
		t.Errorf("memos have %d bytes, want about %d", used, limit)
	}
}

// The largest log gives way first, and each log keeps its newest events even if others need more
// than the budget.
func TestEachLogKeepsItsNewestEvents(t *testing.T) {
	s := OpenChecked(t, Config{Budget: func(int64) int64 { return 1 }})
	write := func(resource string, n, size int) (revision uint64) {
		data := fmt.Appendf(nil, `{"metadata":{"name":"a"},"text":%q}`, strings.Repeat("x", size))
		for range n {
			made, err := s.Commit(t.Context(), Op{Key: Key{Resource: resource, Name: "a"}, Data: data,
				Expect: AnyRevision})
			require.NoError(t, err)
			revision = made[0].Revision
		}
		return revision
	}
	first := write("quiet", 200, 100)
	write("large", 100, 100<<10)
	write("busy", 5000, 1000)
	if _, err := s.Watch("quiet", first-199); err != nil {
		t.Errorf("a quiet resource: %v", err)
	}
	newest := s.Snapshot().Revision()
	if _, err := s.Watch("busy", newest-256); err != nil {
		t.Errorf("the newest 256 events: %v", err)
	}
	if _, err := s.Watch("busy", newest-2000); !errors.Is(err, ErrCompacted) {
		t.Errorf("old events of a busy resource: %v", err)
	}
	if kept := s.logs["large"].bytes; kept < minBytes || kept > minBytes+2*chunkBytes {
		t.Errorf("large objects: %d bytes of events", kept)
	}
	checkBudget(t, s)
}

// A fork has its own budget, and does not discard memos of the state that it shares.
func TestForksHaveTheirOwnBudgets(t *testing.T) {
	s := OpenChecked(t, Config{Budget: func(int64) int64 { return 1 << 20 }})
	key := Key{Resource: "things", Name: "a"}
	write := func(to *Store) {
		_, err := to.Commit(t.Context(), Op{Key: key, Data: []byte(`{"metadata":{"name":"a"}}`),
			Expect: AnyRevision})
		require.NoError(t, err)
	}
	write(s)
	obj := s.Snapshot().Get(key)
	_, err := obj.Memo("form", encoding(obj))
	require.NoError(t, err)
	fork := s.Snapshot().Fork()
	defer fork.Close()
	for range 1000 {
		write(fork)
	}
	_, err = obj.Memo("form", func() (any, error) { return nil, errors.New("discarded") })
	if err != nil {
		t.Error(err)
	}
	if limit := fork.Stats().Budget.Limit; limit != 1<<20 {
		t.Errorf("the fork's budget is %d", limit)
	}
	checkBudget(t, s)
	checkBudget(t, fork)
}

// Packing, compaction and results of concurrent readers leave the counts right.
func TestBudgetCountsWhatIsHeld(t *testing.T) {
	s := OpenChecked(t, Config{Budget: func(int64) int64 { return 256 << 10 }})
	rnd := rand.New(rand.NewPCG(3, 4))
	names := map[string][]string{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			encodeList(t, s, "pods", i%5)
			for obj := range s.Snapshot().Scan("pods", "", Key{}) {
				if _, err := obj.Renew(i%2, encoding(obj)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for i := range 4000 {
		writeRandom(t, s, rnd, []string{"pods", "events"}, names, i)
		switch {
		case i%500 == 0:
			s.Pin(s.Snapshot())
		case i%700 == 0:
			s.Pack()
		case i%900 == 0:
			require.NoError(t, s.Compact(s.Snapshot().Revision()-10))
		}
	}
	<-done
	checkBudget(t, s)
}

// What the budget counts is close to what the garbage collector counts.
func TestSizesAreEstimated(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s, err := Open(Config{Budget: func(int64) int64 { return 1 << 30 }})
	require.NoError(t, err)
	defer s.Close()
	const objects, updates = 4000, 2
	for round := range 1 + updates {
		for i := range objects {
			data := fmt.Appendf(nil, `{"metadata":{"name":"object-%d","namespace":"default","uid":"6a54bdf1-0a0c-4a0e-8a0e-%012d","labels":{"app":"web","tier":"%d"}},"text":%q}`,
				i, i, i, strings.Repeat("x", 1000))
			op := Op{Key: Key{Resource: "things.example.com", Namespace: "default", Name: fmt.Sprint("object-", i)},
				Data: data, Expect: AnyRevision}
			made, err := s.Commit(t.Context(), op)
			require.NoError(t, err)
			if round == updates {
				_, err = made[0].Memo("form", encoding(made[0]))
				require.NoError(t, err)
			}
		}
	}
	held := heap() - before
	b := s.Stats().Budget
	counted := b.Live
	for _, p := range b.Parts {
		counted += p.Bytes
	}
	t.Logf("held %d, counted %d: %+v", held, counted, b)
	if counted < held*3/4 || counted > held*4/3 {
		t.Errorf("counted %d bytes, the heap has grown by %d", counted, held)
	}
	runtime.KeepAlive(s)
}
