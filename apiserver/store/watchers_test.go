package store_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// Ten thousand watchers get the same events in the same order, whether they read immediately or
// late. Those that are too late get an error; no event is skipped silently.
func TestManyWatchers(t *testing.T) {
	watchers, writers, each := 10_000, 16, 10
	if testing.Short() {
		watchers = 1000
	}
	s := store.OpenChecked(t, store.Config{Retain: 80})
	start := s.Snapshot().Revision()
	written := make(chan struct{})
	seed := maphash.MakeSeed()
	type account struct {
		sums    []uint64 // after each event, over all events so far
		tooLate bool
	}
	accounts := make([]account, watchers)
	// the numbers of writes, and of events that the first watcher, which reads immediately, has
	// read
	var made, seen atomic.Int64
	var reading sync.WaitGroup
	for i := range watchers {
		cursor, err := s.Watch("things", start)
		require.NoError(t, err)
		late := i%10 == 9
		reading.Go(func() {
			if late { // after all writes, which exceed the log
				<-written
			}
			var hash maphash.Hash
			hash.SetSeed(seed)
			for over := false; ; {
				events, _, err := cursor.Next()
				if errors.Is(err, store.ErrCompacted) {
					accounts[i].tooLate = true
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range events {
					maphash.WriteComparable(&hash, [2]uint64{uint64(e.Type), e.Revision()})
					hash.WriteString(e.Object.Key.Name)
					accounts[i].sums = append(accounts[i].sums, hash.Sum64())
				}
				if i == 0 {
					seen.Add(int64(len(events)))
				}
				switch {
				case len(events) > 0:
					continue
				case over:
					return
				}
				select {
				case <-cursor.Ready():
				case <-written:
					over = true
				}
			}
		})
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				for made.Load()-seen.Load() > 40 { // half of what the log retains
					runtime.Gosched()
				}
				made.Add(1)
				op := create(fmt.Sprint(w, "-", n%5))
				if op.Expect = store.AnyRevision; n%5 == 4 {
					// deletions have no content
					op = store.Op{Key: thing(fmt.Sprint(w, "-", n%5-1)), Expect: store.AnyRevision}
				}
				if _, err := s.Commit(t.Context(), op); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(written)
	reading.Wait()

	tooLate, longest := 0, []uint64(nil)
	for i := range accounts {
		if len(accounts[i].sums) > len(longest) {
			longest = accounts[i].sums
		}
	}
	if len(longest) != writers*each {
		t.Errorf("%d events were seen, want %d", len(longest), writers*each)
	}
	for i, a := range accounts {
		if a.tooLate {
			tooLate++
		} else if len(a.sums) != len(longest) {
			t.Fatalf("watcher %d saw %d events and waits for more", i, len(a.sums))
		}
		if n := len(a.sums); n > 0 && a.sums[n-1] != longest[n-1] {
			t.Fatalf("watcher %d saw other events, or in another order", i)
		}
	}
	if tooLate < watchers/10 {
		t.Errorf("%d watchers got an error for lost events, want at least those that slept", tooLate)
	}
}
