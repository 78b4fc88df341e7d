package delta_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
	"kelson.dev/operator/delta"
	"kelson.dev/operator/reflector"
	"kelson.dev/operator/store"
)

type thing struct {
	name  string
	state int
}

func key(t thing) string { return t.name }

type (
	queue  = delta.Queue[string, thing]
	deltas = delta.Deltas[thing]
	known  = store.Indexer[string, thing]
)

func newQueue() (*queue, *known) {
	k := store.NewIndexer(store.Config[string, thing]{Key: key})
	return delta.NewQueue(delta.Config[string, thing]{Key: key, Known: k}), k
}

// apply applies the deltas to the store.
func apply(k *known, d deltas) {
	for _, one := range d {
		if one.Type == delta.Deleted {
			k.Delete(one.Object.name)
		} else {
			k.Put(one.Object)
		}
	}
}

// drain pops all waiting keys and returns their deltas as text.
func drain(t *testing.T, q *queue, k *known) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var lines []string
	for q.Len() > 0 {
		err := q.Pop(ctx, func(key string, d deltas, initial bool) error {
			line := key
			for _, one := range d {
				line += fmt.Sprintf(" %s%d", one.Type, one.Object.state)
				if one.DeletedFinalStateUnknown {
					line += "?"
				}
			}
			if initial {
				line += " initial"
			}
			lines = append(lines, line)
			apply(k, d)
			return nil
		})
		require.NoError(t, err)
	}
	return strings.Join(lines, ", ")
}

// Deltas are delivered in the order of the keys and of the changes. Deletions are merged, and
// Replace reports objects that are missing.
func TestQueue(t *testing.T) {
	a, b, c := func(n int) thing {
		return thing{"a", n}
	}, func(n int) thing { return thing{"b", n} }, func(n int) thing { return thing{"c", n} }
	for name, tt := range map[string]struct {
		known []thing
		do    func(*queue)
		want  string
	}{
		"order of keys and of deltas": {nil, func(q *queue) {
			q.Add(a(1))
			q.Add(b(1))
			q.Update(a(2))
			q.Delete(a(3))
			q.Add(a(4))
		},
			"a Added1 Updated2 Deleted3 Added4, b Added1"},
		"two deletions are merged": {[]thing{a(1)}, func(q *queue) {
			q.Delete(a(2))
			q.Delete(a(3))
		}, "a Deleted3"},
		"an observed deletion wins": {[]thing{a(1)}, func(q *queue) {
			q.Delete(a(2))
			q.Replace(nil, "")
		}, "a Deleted2"},
		"a later observed deletion wins": {[]thing{a(1)}, func(q *queue) {
			q.Replace(nil, "")
			q.Delete(a(2))
		}, "a Deleted2 initial"},
		"deletion of an unknown object": {nil, func(q *queue) { q.Delete(a(1)) }, ""},
		"replace reports missing objects": {[]thing{a(1), b(1)}, func(q *queue) { q.Replace([]thing{a(2)}, "") },
			"a Replaced2 initial, b Deleted1? initial"},
		"replace deletes queued objects": {nil, func(q *queue) {
			q.Add(b(7))
			q.Replace([]thing{a(2)}, "")
		}, "b Added7 Deleted7?, a Replaced2"},
		"replace deletes known and queued objects": {[]thing{b(1)}, func(q *queue) {
			q.Update(b(7))
			q.Replace(nil, "")
		}, "b Updated7 Deleted7?"},
		"resync":        {[]thing{a(1), b(1)}, func(q *queue) { q.Update(a(2)); q.Resync() }, "a Updated2, b Sync1"},
		"nothing to do": {nil, func(q *queue) { q.Replace(nil, "") }, ""},
		"initial": {nil, func(q *queue) {
			q.Replace([]thing{a(1), b(1)}, "")
			q.Add(c(1))
		}, "a Replaced1 initial, b Replaced1 initial, c Added1"},
	} {
		t.Run(name, func(t *testing.T) {
			q, k := newQueue()
			for _, obj := range tt.known {
				k.Put(obj)
			}
			tt.do(q)
			assert.Equal(t, drain(t, q, k), tt.want)
			if name != "deletion of an unknown object" && !q.HasSynced() {
				t.Error("not synced")
			}
		})
	}
}

// The queue is synchronized when the first objects have been processed.
func TestSynced(t *testing.T) {
	q, k := newQueue()
	if q.HasSynced() {
		t.Error("synced before the first change")
	}
	q.Replace([]thing{{"a", 1}}, "")
	if q.HasSynced() {
		t.Error("synced before it was processed")
	}
	_ = q.Pop(t.Context(), func(string, deltas, bool) error {
		if q.HasSynced() {
			t.Error("synced while it is processed")
		}
		return nil
	})
	<-q.Synced()
	drain(t, q, k)
}

// Pop waits for an object or for the end of its context, and returns the error of the function.
func TestPopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newQueue()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorIs(t, q.Pop(ctx, nil), context.DeadlineExceeded)
		go func() {
			time.Sleep(time.Hour)
			q.Add(thing{"a", 1})
		}()
		begin, broken := time.Now(), errors.New("broken")
		err := q.Pop(t.Context(), func(string, deltas, bool) error { time.Sleep(time.Minute); return broken })
		if !errors.Is(err, broken) || time.Since(begin) != time.Hour+time.Minute || q.Len() != 0 {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// An object that is being processed counts as known, although the store does not have it yet.
func TestReplaceWhileProcessing(t *testing.T) {
	for name, tt := range map[string]struct {
		first func(*queue)
		then  func(*queue)
		want  string
	}{
		"new, and missing in the list": {func(q *queue) {
			q.Add(thing{"a", 1})
		}, func(q *queue) { q.Replace(nil, "") }, "a Deleted1?"},
		"deleted, and missing in the list": {func(q *queue) {
			q.Add(thing{"a", 1})
			q.Delete(thing{"a", 2})
		}, func(q *queue) { q.Replace(nil, "") }, ""},
		"new, then deleted": {func(q *queue) {
			q.Add(thing{"a", 1})
		}, func(q *queue) { q.Delete(thing{"a", 2}) }, "a Deleted2"},
		"deleted, then deleted": {func(q *queue) {
			q.Add(thing{"a", 1})
			q.Delete(thing{"a", 2})
		}, func(q *queue) { q.Delete(thing{"a", 3}) }, ""},
		"resync": {func(q *queue) {
			q.Add(thing{"a", 1})
		}, func(q *queue) { q.Resync() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			q, k := newQueue()
			tt.first(q)
			_ = q.Pop(t.Context(), func(_ string, d deltas, _ bool) error { tt.then(q); apply(k, d); return nil })
			assert.Equal(t, drain(t, q, k), tt.want)
		})
	}
}

// With concurrent producers and consumers, the consumer ends with the producer's state, and no
// delta is delivered twice or out of order.
func TestDeliversExactlyOnce(t *testing.T) {
	q, k := newQueue()
	seed := randomtest.Seed(t)
	ctx, cancel := context.WithCancel(t.Context())
	var consumers, producers sync.WaitGroup
	seen := map[string]int{} // key → the last state popped; one Pop runs at a time
	for range 3 {
		consumers.Go(func() {
			for q.Pop(ctx, func(key string, d deltas, _ bool) error {
				for _, one := range d {
					fresh := one.Type == delta.Added || one.Type == delta.Updated
					if one.Object.state < seen[key] || fresh && one.Object.state == seen[key] {
						t.Errorf("%s: %d after %d", key, one.Object.state, seen[key])
					}
					seen[key] = one.Object.state
				}
				apply(k, d)
				return nil
			}) == nil {
			}
		})
	}
	var mu sync.Mutex // the producers' state, and the order of their calls
	truth, state := map[string]thing{}, 0
	for n := range 4 {
		producers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 2000 {
				mu.Lock()
				state++
				obj := thing{fmt.Sprint(random.IntN(10)), state}
				_, exists := truth[obj.name]
				switch what := random.IntN(20); {
				case what == 0: // some changes were missed; a list reveals them
					for _, name := range slices.Collect(maps.Keys(truth)) {
						if random.IntN(3) == 0 {
							delete(truth, name)
						}
					}
					truth[obj.name] = obj
					q.Replace(slices.Collect(maps.Values(truth)), "")
				case what == 1:
					q.Resync()
				case exists && what < 8:
					delete(truth, obj.name)
					q.Delete(obj)
				case exists:
					truth[obj.name] = obj
					q.Update(obj)
				default:
					truth[obj.name] = obj
					q.Add(obj)
				}
				mu.Unlock()
			}
		})
	}
	producers.Wait()
	q.Replace(slices.Collect(maps.Values(truth)), "")
	for q.Len() > 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	consumers.Wait()
	got := map[string]thing{}
	for _, obj := range k.List() {
		got[obj.name] = obj
	}
	if !maps.Equal(got, truth) {
		t.Errorf("got %v, want %v", got, truth)
	}
}

// The queue delivers the newest state of each object in order, without deleted ones. Replace wakes
// all waiting consumers.
func TestFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := delta.NewFIFO(key)
		pop := func() string {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			obj, err := q.Pop(ctx)
			if err != nil {
				return "nothing"
			}
			return fmt.Sprintf("%s%d", obj.name, obj.state)
		}
		q.Add(thing{"a", 1})
		q.Add(thing{"b", 1})
		q.Add(thing{"c", 1})
		q.Update(thing{"a", 2})
		q.Delete(thing{"b", 2})
		q.Delete(thing{"unknown", 1})
		assert.Equalf(t, q.Len(), 2, "wait")
		assert.Equal(t, pop()+pop()+pop(), "a2c1nothing")
		q.Add(thing{"a", 3})
		q.Replace([]thing{{"x", 1}, {"y", 1}}, "5")
		assert.Equal(t, pop()+pop()+pop(), "x1y1nothing")
		var consumers sync.WaitGroup
		for range 2 {
			consumers.Go(func() { pop() })
		}
		synctest.Wait()
		q.Replace([]thing{{"x", 1}, {"y", 1}}, "6")
		begin := time.Now()
		consumers.Wait()
		assert.Equalf(t, time.Since(begin), 0, "one of two waiting consumers was not woken")
	})
}

// The queues implement the reflector's sink.
var (
	_ reflector.Sink[*metav1.PartialObjectMetadata] = (*delta.Queue[string, *metav1.PartialObjectMetadata])(nil)
	_ reflector.Sink[*metav1.PartialObjectMetadata] = (*delta.FIFO[string, *metav1.PartialObjectMetadata])(nil)
)
