package etcd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// observations has two stores over one cluster, and what their users have observed. mu guards the
// slices.
type observations struct {
	t      *testing.T
	stores []*store.Store
	start  uint64       // the revision at the start
	began  time.Time    // all times are relative to it
	acked  atomic.Int64 // the newest acknowledged revision

	mu      sync.Mutex
	calls   []call
	looks   []look
	streams []stream
	behind  int // number of ErrCompacted in watches
}

// call is one Commit.
type call struct {
	who          int
	began, ended time.Duration
	ops          []store.Op
	payloads     []string // "" means deleted
	revision     uint64   // 0: unknown outcome
	refused      bool     // a precondition failed
	acknowledged uint64   // the newest acknowledged revision at the start of the call
}

// look is the state of a key that a read returned, or that a refused write found.
type look struct {
	who          int
	began, ended time.Duration
	key          store.Key
	revision     uint64 // 0: the key does not exist
	payload      string
}

// stream holds the events that one cursor returned: all of a resource after a revision, up to
// another.
type stream struct {
	resource     string
	after, until uint64
	events       []*store.Event
}

var faultResources = []string{"things", "others"}

func faultKey(r *rand.Rand) store.Key {
	return store.Key{Resource: faultResources[r.IntN(2)], Namespace: "default", Name: fmt.Sprint("n", r.IntN(5))}
}

func (w *observations) now() time.Duration { return time.Since(w.began) }

// write reads and writes until the end, at a limited rate.
func (w *observations) write(ctx context.Context, r *rand.Rand, who int) {
	s := w.stores[who%2]
	for i := 0; ctx.Err() == nil; i++ {
		seen, ok := w.read(ctx, r, who, s)
		if ok {
			w.commit(ctx, r, who, i, s, seen)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
		}
	}
}

// read reads the current state of a key.
func (w *observations) read(ctx context.Context, r *rand.Rand, who int, s *store.Store) (*store.Snapshot, bool) {
	l := look{who: who, key: faultKey(r), began: w.now()}
	acknowledged := uint64(w.acked.Load())
	ask, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	sn, err := s.Fresh(ask)
	if err != nil {
		return nil, false
	}
	l.ended = w.now()
	if sn.Revision() < acknowledged {
		w.t.Errorf("a fresh state has revision %d, but %d was acknowledged", sn.Revision(), acknowledged)
	}
	if obj := sn.Get(l.key); obj != nil {
		l.revision, l.payload = obj.Revision, payload(obj.Data)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, l)
	return sn, true
}

func (w *observations) commit(ctx context.Context, r *rand.Rand, who, i int, s *store.Store, seen *store.Snapshot) {
	c := call{who: who, acknowledged: uint64(w.acked.Load())}
	keys := map[store.Key]bool{}
	for n := range 1 + r.IntN(3) {
		op := store.Op{Key: faultKey(r), Expect: store.AnyRevision}
		if keys[op.Key] {
			continue
		}
		keys[op.Key] = true
		now := seen.Get(op.Key)
		text := ""
		if now == nil || r.IntN(4) > 0 {
			text = fmt.Sprintf("%d.%d.%d", who, i, n)
			op.Data = fmt.Appendf(nil, `{"metadata":{},"payload":%q}`, text)
		}
		if r.IntN(3) > 0 || op.Data == nil { // deletions are identified by revision
			op.Expect = 0
			if now != nil {
				op.Expect = now.Revision
			}
		}
		c.ops, c.payloads = append(c.ops, op), append(c.payloads, text)
	}
	ask, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	c.began = w.now()
	objects, err := s.Commit(ask, c.ops...)
	c.ended = w.now()
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		c.refused = true
	case err == nil:
		c.revision = objects[0].Revision
		for _, obj := range objects {
			if obj.Revision != c.revision {
				w.t.Errorf("a unit has revisions %d and %d", c.revision, obj.Revision)
			}
		}
		for have := w.acked.Load(); have < int64(c.revision) &&
			!w.acked.CompareAndSwap(have, int64(c.revision)); have = w.acked.Load() {
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, c)
	if conflict != nil {
		l := look{who: who, began: c.began, ended: c.ended, key: conflict.Key}
		if conflict.Current != nil {
			l.revision, l.payload = conflict.Current.Revision, payload(conflict.Current.Data)
		}
		w.looks = append(w.looks, l)
	}
}

func payload(data []byte) string {
	var object struct{ Payload string }
	if err := json.Unmarshal(data, &object); err != nil {
		return err.Error()
	}
	return object.Payload
}

// watch reads events until it has all up to the last revision, which it receives when writing has
// ended. Now and then it continues with another cursor, perhaps of the other store.
func (w *observations) watch(ctx context.Context, r *rand.Rand, who int, resource string, last <-chan uint64) {
	after, until := w.start, uint64(0)
	for until == 0 || after < until {
		s := w.stores[(who+r.IntN(2))%2]
		cursor, err := s.Watch(resource, after)
		if err == nil {
			got := stream{resource: resource, after: after, until: after}
			for range 1 + r.IntN(30) {
				var events []*store.Event
				var revision uint64
				if events, revision, err = cursor.Next(); err != nil {
					break
				}
				got.events, got.until = append(got.events, events...), max(got.until, revision)
				if len(events) > 0 {
					continue
				}
				if until > 0 && got.until >= until {
					break
				}
				select {
				case <-cursor.Ready():
				case until = <-last:
					last = nil
				case <-time.After(100 * time.Millisecond):
					// events of other resources advance the revision but do not wake the cursor
				case <-ctx.Done():
					w.t.Errorf("watcher %d of %q is at %d, not at %d", who, resource, got.until, until)
					return
				}
			}
			after = got.until
			w.mu.Lock()
			w.streams = append(w.streams, got)
			w.mu.Unlock()
		}
		switch {
		case errors.Is(err, store.ErrCompacted):
			w.mu.Lock()
			w.behind++
			w.mu.Unlock()
			after = s.Snapshot().Revision()
		case err != nil:
			w.t.Errorf("watch: %v", err)
			return
		}
	}
}

// harm causes a fault for a while and then ends it.
func harm(t *testing.T, c *cluster, r *rand.Rand) (what string) {
	i := r.IntN(len(c.members))
	m := c.members[i]
	kinds := 6
	if c.net.whole {
		kinds = 4
	}
	while := time.Duration(500+r.IntN(2000)) * time.Millisecond
	switch r.IntN(kinds) {
	case 0:
		m.kill()
		time.Sleep(while)
		c.start(t, i)
		return fmt.Sprintf("member %d killed for %v", i, while)
	case 1: // members that form a majority
		other := (i + 1) % len(c.members)
		m.kill()
		c.members[other].kill()
		time.Sleep(while / 2)
		c.start(t, i)
		c.start(t, other)
		return fmt.Sprintf("members %d and %d killed for %v", i, other, while/2)
	case 2:
		m.pause()
		time.Sleep(while)
		m.resume()
		return fmt.Sprintf("member %d paused for %v", i, while)
	case 3: // killed and restarted immediately
		m.kill()
		c.start(t, i)
		return fmt.Sprintf("member %d killed and restarted", i)
	default:
		silent := r.IntN(2) == 0
		c.net.isolate(silent, i)
		time.Sleep(while)
		c.net.heal()
		return fmt.Sprintf("member %d cut off for %v, silently: %v", i, while, silent)
	}
}

// TestFaults writes and watches through two stores while members are killed, paused and isolated,
// and then compares all observations of the users with etcd's history. KELSON_SEED repeats the
// choices, but not their timing.
func TestFaults(t *testing.T) {
	seed := randomtest.Seed(t)
	random := func(who int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(who))) }

	c := startCluster(t, 3, "http")
	c.healthy(t)
	const prefix = "/faults"
	w := &observations{t: t, stores: []*store.Store{open(t, c, prefix, 300), open(t, c, prefix, 300)},
		began: time.Now()}
	sn, err := w.stores[0].Fresh(t.Context())
	require.NoError(t, err)
	w.start = sn.Revision()
	_, err = w.stores[1].Fresh(t.Context())
	require.NoError(t, err)

	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var writers, watchers sync.WaitGroup
	for i := range 6 {
		writers.Go(func() { w.write(writing, random(i), i) })
	}
	watching, end := context.WithCancel(t.Context())
	defer end()
	var lasts []chan uint64
	for i, resource := range append([]string{""}, faultResources...) {
		for j := range 2 {
			last := make(chan uint64, 1)
			lasts = append(lasts, last)
			watchers.Go(func() { w.watch(watching, random(100+10*i+j), j, resource, last) })
		}
	}
	r := random(1000)
	for range storetest.Rounds(t, 8) {
		t.Log(harm(t, c, r))
		// usually long enough to elect a leader
		time.Sleep(time.Duration(300+r.IntN(1200)) * time.Millisecond)
	}
	c.healthy(t)
	stop()
	writers.Wait()

	ref := readReference(t, c.dial(t), prefix, w.start)
	for _, last := range lasts {
		last <- ref.revision
	}
	time.AfterFunc(time.Minute, end)
	watchers.Wait()
	for i, s := range w.stores {
		ask, cancel := context.WithTimeout(t.Context(), time.Minute)
		sn, err := s.Fresh(ask)
		cancel()
		require.NoErrorf(t, err, "store %d does not recover", i)
		ref.checkState(t, sn)
	}
	w.report()
	ref.checkCalls(t, w)
	ref.checkStreams(t, w)
	ref.checkKeys(t, w)
}

func (w *observations) report() {
	done, refused, unknown := 0, 0, 0
	for _, c := range w.calls {
		switch {
		case c.refused:
			refused++
		case c.revision == 0:
			unknown++
		default:
			done++
		}
	}
	events := 0
	for _, s := range w.streams {
		events += len(s.events)
	}
	w.t.Logf("%d units written, %d refused, %d unknown; %d looks; %d events in %d streams, %d times behind", done,
		refused, unknown, len(w.looks), events,
		len(w.streams), w.behind)
	if done == 0 || events == 0 {
		w.t.Error("nothing happened")
	}
}

// name returns a key's name in etcd, below the prefix.
func name(k store.Key) string { return strings.Join([]string{k.Resource, k.Namespace, k.Name}, "/") }
