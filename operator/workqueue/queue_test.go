package workqueue

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

type plain = Queue[string, struct{}]

func newPlain(cfg Config[string, struct{}]) *plain { return New(cfg) }

func get(t *testing.T, q *plain) string {
	t.Helper()
	item, err := q.Get(t.Context())
	require.NoError(t, err)
	return item.Key
}

// done calls Done for a running key.
func done[P any](q *Queue[string, P], key string) {
	if e := q.entries[key]; e != nil {
		q.Done(Item[string, P]{Key: key, entry: e, turn: e.turn})
	}
}

func wantReady(t *testing.T, q *plain, n int) {
	t.Helper()
	require.Equalf(t, q.Len(), n, "keys are ready")
}

// Keys are returned in the order of their first add, each once.
func TestOrderAndDeduplication(t *testing.T) {
	q := newPlain(Config[string, struct{}]{})
	for _, k := range []string{"a", "b", "a", "c", "b"} {
		q.Add(k, struct{}{})
	}
	for _, want := range []string{"a", "b", "c"} {
		require.Equal(t, get(t, q), want)
		done(q, want)
	}
	wantReady(t, q, 0)
}

// A key that is added while it is processed is returned one more time, and only after Done.
func TestKeyInProcessing(t *testing.T) {
	q := newPlain(Config[string, struct{}]{})
	q.Add("a", struct{}{})
	get(t, q)
	q.Add("a", struct{}{})
	q.Add("a", struct{}{})
	wantReady(t, q, 0) // not given to a second worker
	done(q, "a")
	wantReady(t, q, 1) // once
	get(t, q)
	done(q, "a")
	done(q, "a")
	q.Done(Item[string, struct{}]{Key: "a"})
	wantReady(t, q, 0)
}

// An item from Get can be passed to Done only once, regardless of what happens to the key
// afterwards.
func TestDoneTwiceHasNoEffect(t *testing.T) {
	q := newPlain(Config[string, struct{}]{})
	q.Add("a", struct{}{})
	first, _ := q.Get(t.Context())
	q.Add("a", struct{}{})
	q.Done(first)
	second, _ := q.Get(t.Context())
	q.Done(first)
	s := q.Stats()
	assert.Equalf(t, s.Running, 1, "%+v", s)
	q.Done(second)
	assert.Equal(t, q.Stats(), (Stats{}))
}

// The queue keeps a bounded number of entries of finished keys.
func TestKeysAreForgotten(t *testing.T) {
	q := New(Config[int, struct{}]{})
	const waiting = 10
	for key := range waiting {
		q.AddAfter(-1-key, struct{}{}, time.Hour)
	}
	for key := range 5 * maxResting {
		q.Add(key, struct{}{})
		q.Add(key/2, struct{}{})
		for q.Len() > 0 {
			item, _ := q.Get(t.Context())
			q.Done(item)
		}
		if len(q.entries) > maxResting+waiting || len(q.entries) != q.resting+waiting {
			t.Fatalf("%d entries, %d rest", len(q.entries), q.resting)
		}
	}
	assert.Equal(t, q.Stats(), (Stats{Waiting: waiting}))
}

// No key is held by two workers at once, and no payload is lost.
func TestNoKeyTwiceAtOnce(t *testing.T) {
	q := New(Config[int, int]{Merge: func(old, new int) int { return old + new }})
	const keys, adds, workers = 20, 5000, 8
	var mu sync.Mutex
	held := map[int]bool{}
	sum := 0
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				item, err := q.Get(t.Context())
				if err != nil {
					return
				}
				mu.Lock()
				if held[item.Key] {
					t.Errorf("%d is held by two workers", item.Key)
				}
				held[item.Key] = true
				sum += item.Payload
				mu.Unlock()
				mu.Lock()
				held[item.Key] = false
				mu.Unlock()
				q.Done(item)
			}
		})
	}
	for i := range adds {
		q.AddWith(rand.IntN(keys), 1, Options{Priority: i % 3})
	}
	require.NoError(t, q.ShutDownWithDrain(t.Context()))
	wg.Wait()
	assert.Equalf(t, sum, adds, "payloads sum up to")
}

// A delayed key is returned at its earliest time, and once.
func TestDelays(t *testing.T) {
	tests := []struct {
		name string
		add  func(q *plain)
		want []string // times and keys, in order
	}{
		{"in order of time", func(q *plain) {
			later(q, "a", 3)
			later(q, "b", 1)
			later(q, "c", 2)
		}, []string{"1s b", "2s c", "3s a"}},
		{"earliest wins", func(q *plain) { later(q, "a", 5); later(q, "a", 2); later(q, "a", 9) }, []string{"2s a"}},
		{"now wins", func(q *plain) { later(q, "a", 5); q.Add("a", struct{}{}) }, []string{"0s a"}},
		{"no delay", func(q *plain) { later(q, "a", 0); later(q, "b", -1) }, []string{"0s a", "0s b"}},
		{"queued stays queued", func(q *plain) { q.Add("a", struct{}{}); later(q, "a", 5) }, []string{"0s a"}},
		{"never", func(q *plain) { q.AddAfter("a", struct{}{}, math.MaxInt64); later(q, "b", 1) }, []string{"1s b"}},
		{"far apart", func(q *plain) { later(q, "a", 3600*24*30); later(q, "b", 1) }, []string{"1s b", "720h0m0s a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newPlain(Config[string, struct{}]{})
				start := time.Now()
				tt.add(q)
				var got []string
				ctx, cancel := context.WithTimeout(t.Context(), 365*24*time.Hour)
				defer cancel()
				for {
					item, err := q.Get(ctx)
					if err != nil {
						break
					}
					got = append(got, fmt.Sprint(time.Since(start), " ", item.Key))
					q.Done(item)
				}
				assert.Slice(t, got, tt.want)
			})
		})
	}
}

func later(q *plain, key string, seconds int) {
	q.AddAfter(key, struct{}{}, time.Duration(seconds)*time.Second)
}

// A key that becomes due while it is processed is returned after Done.
func TestDelayWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPlain(Config[string, struct{}]{})
		q.Add("a", struct{}{})
		get(t, q)
		later(q, "a", 1)
		time.Sleep(2 * time.Second)
		wantReady(t, q, 0) // due, but held back
		done(q, "a")
		wantReady(t, q, 1)
		get(t, q)
		later(q, "a", 1)
		done(q, "a")
		wantReady(t, q, 0)
		time.Sleep(2 * time.Second)
		wantReady(t, q, 1)
	})
}

// The delay of a key grows with each retry until Forget.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPlain(Config[string, struct{}]{Limiter: &Exponential[string]{Base: time.Second, Max: 5 * time.Second}})
		var got []time.Duration
		for range 5 {
			start := time.Now()
			q.AddRateLimited("a", struct{}{})
			get(t, q)
			done(q, "a")
			got = append(got, time.Since(start))
		}
		assert.Slicef(t, got, []time.Duration{1e9, 2e9, 4e9, 5e9, 5e9}, "waited")
		assert.Equalf(t, q.NumRequeues("a"), 5, "requeues")
		q.Forget("a")
		assert.Equalf(t, q.NumRequeues("a"), 0, "requeues after Forget")
	})
}

// Higher priorities are first. With aging, a key that has waited long precedes a newer one.
func TestPriority(t *testing.T) {
	type add struct {
		key      string
		priority int
		at       time.Duration
	}
	tests := []struct {
		name  string
		aging time.Duration
		adds  []add
		want  string
	}{
		{"higher first", 0, []add{{"a", 0, 0}, {"b", 5, 0}, {"c", -5, 0}, {"d", 5, 0}}, "b d a c"},
		{"raised", 0, []add{{"a", 0, 0}, {"b", 0, 0}, {"b", 1, 0}}, "b a"},
		{"never lowered", 0, []add{{"b", 1, 0}, {"a", 0, 0}, {"b", -1, 0}}, "b a"},
		{"absolute without aging", 0, []add{{"a", 0, 0}, {"b", 1, time.Hour}}, "b a"},
		{"aged", time.Second, []add{{"a", 0, 0}, {"b", 5, 4 * time.Second}, {"c", 5, 6 * time.Second}}, "b a c"},
		{"extreme", time.Second, []add{{"a", math.MinInt, 0}, {"b", 0, 0}, {"c", math.MaxInt, 0},
			{"d", math.MaxInt - 1, 0}}, "c d b a"},
		{"raised to extremes", time.Second, []add{{"a", 0, 0}, {"b", math.MinInt, 0}, {"b", math.MaxInt, 0}}, "b a"},
		{"age counts for more than a raise", time.Second,
			[]add{{"a", 0, 0}, {"b", 1, time.Minute}, {"a", 1, time.Minute}}, "a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newPlain(Config[string, struct{}]{Aging: tt.aging})
				start := time.Now()
				for _, a := range tt.adds {
					time.Sleep(a.at - time.Since(start))
					q.AddWith(a.key, struct{}{}, Options{Priority: a.priority})
				}
				var got []string
				for q.Len() > 0 {
					key := get(t, q)
					got = append(got, key)
					done(q, key)
				}
				assert.Equal(t, strings.Join(got, " "), tt.want)
			})
		})
	}
}

// The payloads of all adds of a key are merged, delayed ones too.
func TestPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string, []int]{Merge: func(old, new []int) []int { return append(old, new...) }})
		check := func(want ...int) {
			t.Helper()
			item, err := q.Get(t.Context())
			if err != nil || !slices.Equal(item.Payload, want) {
				t.Fatalf("got %v, %v, want %v", item.Payload, err, want)
			}
		}
		q.AddAfter("a", []int{1}, time.Second)
		q.Add("a", []int{2})
		q.Add("a", []int{3})
		check(1, 2, 3)
		q.Add("a", []int{4})
		q.AddAfter("a", []int{5}, time.Second) // it is due earlier: only the payload is merged
		done(q, "a")
		check(4, 5)
		done(q, "a")
		time.Sleep(time.Minute)
		assert.Equalf(t, q.Len(), 0, "queued again")
	})
}

// Get ends with its context and takes no key afterwards.
func TestGetEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPlain(Config[string, struct{}]{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := q.Get(ctx)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		q.Add("a", struct{}{})
		if _, err := q.Get(ctx); err == nil {
			t.Error("Get returned a key after its context had ended")
		}
		get(t, q)
	})
}

// A worker whose context ends while it is woken must pass the wake-up on.
func TestWakeUpIsNotLost(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			q := newPlain(Config[string, struct{}]{})
			got := make(chan string, 2)
			ctx, cancel := context.WithCancel(t.Context())
			stay := func(ctx context.Context) {
				if item, err := q.Get(ctx); err == nil {
					got <- item.Key
				}
			}
			go stay(t.Context())
			synctest.Wait()
			go stay(ctx)
			synctest.Wait()
			go cancel()
			q.Add("a", struct{}{})
			if key := <-got; key != "a" { // a deadlock if it is lost
				t.Errorf("got %s", key)
			}
			q.ShutDown()
		})
	}
}

// After ShutDown, queued keys are still returned, and delayed and new ones are not.
func TestShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPlain(Config[string, struct{}]{})
		q.Add("a", struct{}{})
		later(q, "b", 1)
		q.ShutDown()
		q.Add("c", struct{}{})
		if !q.ShuttingDown() {
			t.Error("not shutting down")
		}
		assert.Equal(t, get(t, q), "a")
		done(q, "a")
		if _, err := q.Get(t.Context()); err != ErrShutDown {
			t.Errorf("got %v, want ErrShutDown", err)
		}
		time.Sleep(time.Minute)
		wantReady(t, q, 0)
	})
}

// ShutDownWithDrain returns when all keys are done, also those that were added while they were
// processed.
func TestShutDownWithDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPlain(Config[string, struct{}]{})
		q.Add("a", struct{}{})
		q.Add("b", struct{}{})
		get(t, q)
		q.Add("a", struct{}{}) // held: processed again, also while draining
		ended := make(chan error, 1)
		go func() { ended <- q.ShutDownWithDrain(t.Context()) }()
		synctest.Wait()
		done(q, "a")
		for _, want := range []string{"b", "a"} {
			assert.Equal(t, get(t, q), want)
			synctest.Wait()
			if len(ended) > 0 {
				t.Fatal("drained while a key is held")
			}
			done(q, want)
		}
		assert.NoError(t, <-ended)
	})
}

// The end of the context, or ShutDown, ends a drain before the keys are done.
func TestDrainGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(q *plain, cancel func()){
		"context":  func(_ *plain, cancel func()) { cancel() },
		"shutdown": func(q *plain, _ func()) { q.ShutDown() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newPlain(Config[string, struct{}]{})
				q.Add("a", struct{}{})
				get(t, q)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- q.ShutDownWithDrain(ctx) }()
				synctest.Wait()
				giveUp(q, cancel)
				if err := <-ended; err != ctx.Err() {
					t.Errorf("got %v, want %v", err, ctx.Err())
				}
			})
		})
	}
}

type counts struct {
	added, got, finished, retried int
	waited, worked                time.Duration
}

func (c *counts) Depth(int, int)           {}
func (c *counts) Added()                   { c.added++ }
func (c *counts) Got(d time.Duration)      { c.got++; c.waited += d }
func (c *counts) Finished(d time.Duration) { c.finished++; c.worked += d }
func (c *counts) Retried()                 { c.retried++ }

// The statistics and the metrics report added, retried and finished keys and their times.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counts
		q := newPlain(Config[string, struct{}]{Metrics: &c})
		q.Add("a", struct{}{})
		q.Add("a", struct{}{})
		q.Add("b", struct{}{})
		time.Sleep(time.Second)
		get(t, q)
		get(t, q)
		time.Sleep(3 * time.Second)
		later(q, "c", 60)
		if got, want := q.Stats(), (Stats{Waiting: 1, Running: 2, Unfinished: 6 * time.Second,
			Longest: 3 * time.Second}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		done(q, "a")
		q.AddRateLimited("b", struct{}{})
		done(q, "b")
		want := counts{added: 4, got: 2, finished: 2, retried: 2, waited: 2 * time.Second, worked: 6 * time.Second}
		assert.Equal(t, c, want)
	})
}

type depths struct {
	counts
	ready map[int]int // by priority
}

func (d *depths) Depth(priority, n int) { d.ready[priority] = n }

// The depth of each priority is the number of its ready keys, also after keys were raised and
// dropped.
func TestDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := depths{ready: map[int]int{}}
		q := newPlain(Config[string, struct{}]{Metrics: &d})
		want := func(when string, want map[int]int) {
			t.Helper()
			if !maps.Equal(d.ready, want) {
				t.Errorf("%s: %v, want %v", when, d.ready, want)
			}
		}
		for n, key := range []string{"a", "b", "c", "d"} {
			q.AddWith(key, struct{}{}, Options{Priority: n / 2})
		}
		want("added", map[int]int{0: 2, 1: 2})
		q.AddWith("a", struct{}{}, Options{Priority: 7})
		want("raised", map[int]int{0: 1, 1: 2, 7: 1})
		q.Drop(func(key string) bool { return key == "c" })
		want("dropped", map[int]int{0: 1, 1: 1, 7: 1})
		for range 3 {
			get(t, q)
		}
		want("taken", map[int]int{0: 0, 1: 0, 7: 0})
		q.Add("a", struct{}{})
		want("held", map[int]int{0: 0, 1: 0, 7: 0})
		done(q, "a")
		want("queued again", map[int]int{0: 1, 1: 0, 7: 0})
	})
}
