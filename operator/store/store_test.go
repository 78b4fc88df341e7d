package store_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
	"kelson.dev/operator/store"
)

type thing struct {
	name string
	n    int
	tags string // separated by spaces
}

func key(t thing) string    { return t.name }
func tags(t thing) []string { return strings.Fields(t.tags) }

func names(things []thing) string {
	var all []string
	for _, t := range things {
		all = append(all, t.name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// The indexes follow each Put, Delete and Replace, also an index that is added later.
func TestIndexer(t *testing.T) {
	x := store.NewIndexer(store.Config[string, thing]{Key: key, Indexes: map[string]store.Index[thing]{"tag": tags}})
	x.Put(thing{"a", 1, "red"})
	x.Put(thing{"b", 1, "red blue"})
	if old, had := x.Put(thing{"a", 2, "blue"}); !had || old.n != 1 {
		t.Errorf("put returned %v, %v", old, had)
	}
	assert.NoError(t, x.AddIndex("n", func(t thing) []string { return []string{fmt.Sprint(t.n)} }))
	x.Put(thing{"c", 2, ""})
	for _, tt := range []struct{ index, value, want string }{
		{"tag", "red", "b"}, {"tag", "blue", "a b"}, {"tag", "green", ""}, {"n", "1", "b"}, {"n", "2", "a c"},
	} {
		if got, err := x.ByIndex(tt.index, tt.value); err != nil || names(got) != tt.want {
			t.Errorf("%s %s: %v, %v, want %s", tt.index, tt.value, got, err, tt.want)
		}
	}
	if old, had := x.Delete("b"); !had || old.name != "b" {
		t.Errorf("delete returned %v, %v", old, had)
	}
	if _, had := x.Delete("b"); had {
		t.Error("deleted twice")
	}
	if values, err := x.IndexValues("tag"); err != nil || strings.Join(values, " ") != "blue" {
		t.Errorf("values %v, %v", values, err)
	}
	if values, err := x.IndexOf("tag", thing{tags: "x y"}); err != nil || len(values) != 2 {
		t.Errorf("index of: %v, %v", values, err)
	}
	x.Replace([]thing{{"z", 9, "red"}})
	if got, _ := x.ByIndex("tag", "red"); names(got) != "z" || names(x.List()) != "z" || x.Len() != 1 ||
		len(x.Keys()) != 1 {
		t.Errorf("after replace: %v, %v", got, x.List())
	}
	if _, ok := x.Get("a"); ok {
		t.Error("a survived the replace")
	}
	assert.ErrorIs(t, x.AddIndex("n", nil), store.ErrIndexExists)
	for _, err := range []error{errOf(x.ByIndex("no", "")), errOf(x.IndexValues("no")),
		errOf(x.IndexOf("no", thing{}))} {
		assert.ErrorIs(t, err, store.ErrNoIndex)
	}
}

func errOf(_ any, err error) error { return err }

// After random operations, an index has the same objects as a search.
func TestIndexesAgree(t *testing.T) {
	seed := randomtest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	x := store.NewIndexer(store.Config[string, thing]{Key: key})
	require.NoError(t, x.AddIndex("tag", tags))
	want := map[string]thing{}
	for step := range 2000 {
		obj := thing{fmt.Sprint(random.IntN(20)), step, []string{"", "red", "red blue", "blue green"}[random.IntN(4)]}
		switch what := random.IntN(50); {
		case what == 0:
			delete(want, obj.name)
			x.Replace(slices.Collect(maps.Values(want)))
		case what < 15:
			delete(want, obj.name)
			x.Delete(obj.name)
		default:
			want[obj.name] = obj
			x.Put(obj)
		}
		for _, tag := range []string{"red", "blue", "green"} {
			var found []thing
			for _, obj := range want {
				if slices.Contains(tags(obj), tag) {
					found = append(found, obj)
				}
			}
			if got, _ := x.ByIndex("tag", tag); names(got) != names(found) {
				t.Fatalf("seed %d, step %d: %s finds %v, want %v", seed, step, tag, got, found)
			}
		}
	}
}

// An index function whose values change for an object leaves no trace of the object after its
// deletion.
func TestIndexWithUnstableValues(t *testing.T) {
	n := 0
	unstable := func(thing) []string { n++; return []string{fmt.Sprint("v", n)} }
	x := store.NewIndexer(store.Config[string, thing]{Key: key,
		Indexes: map[string]store.Index[thing]{"unstable": unstable}})
	x.Put(thing{name: "a"})
	x.Delete("a")
	if got, err := x.ByIndex("unstable", "v1"); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

// Concurrent writes, reads and new indexes leave an index that agrees with the content.
func TestIndexerInParallel(t *testing.T) {
	x := store.NewIndexer(store.Config[string, thing]{Key: key})
	var tasks sync.WaitGroup
	for n := range 4 {
		tasks.Go(func() {
			_ = x.AddIndex(fmt.Sprint("tag", n), tags)
			for m := range 500 {
				x.Put(thing{fmt.Sprint(m % 50), m, "red"})
				_, _ = x.ByIndex("tag0", "red")
				x.List()
				x.Delete(fmt.Sprint(m % 7))
			}
		})
	}
	tasks.Wait()
	if got, err := x.ByIndex("tag3", "red"); err != nil || len(got) != x.Len() {
		t.Errorf("%d of %d, %v", len(got), x.Len(), err)
	}
}

// Objects leave the heap in order, after changes too. Pop waits for an object or for the end of its
// context.
func TestHeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := store.NewHeap(key, func(a, b thing) bool { return cmp.Less(a.n, b.n) })
		if _, any := h.Peek(); any {
			t.Error("the new heap is not empty")
		}
		for _, n := range rand.Perm(100) {
			h.Put(thing{name: fmt.Sprint(n), n: n})
		}
		h.Put(thing{name: "99", n: -1})
		h.Put(thing{name: "0", n: 1000})
		if obj, had := h.Delete("50"); !had || obj.n != 50 {
			t.Errorf("deleted %v, %v", obj, had)
		}
		if _, had := h.Get("50"); had {
			t.Error("the deleted object is still there")
		}
		if obj, had := h.Get("51"); !had || obj.n != 51 {
			t.Errorf("got %v, %v", obj, had)
		}
		last := -2
		for range h.Len() {
			first, _ := h.Peek()
			obj, err := h.Pop(t.Context())
			if err != nil || obj.n <= last || obj != first {
				t.Errorf("%v after %d, peeked %v, %v", obj, last, first, err)
			}
			last = obj.n
		}
		assert.Equalf(t, last, 1000, "the last")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := h.Pop(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		go func() {
			time.Sleep(time.Hour)
			h.Put(thing{name: "late"})
		}()
		if obj, err := h.Pop(t.Context()); err != nil || obj.name != "late" {
			t.Errorf("%v, %v", obj, err)
		}
	})
}

// An object expires after its lifetime, which starts again with each Put.
func TestExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := store.NewExpiring(key, func(t thing) time.Duration { return time.Duration(t.n) * time.Minute })
		e.Put(thing{name: "one", n: 1})
		e.Put(thing{name: "two", n: 2})
		e.Put(thing{name: "deleted", n: 9})
		e.Delete("deleted")
		time.Sleep(59 * time.Second)
		assert.Equal(t, names(e.List()), "one two")
		time.Sleep(time.Second)
		assert.Equal(t, names(e.List()), "two")
		if _, ok := e.Get("one"); ok {
			t.Error("the object expired too early")
		}
		e.Put(thing{name: "two", n: 2}) // its lifetime starts again
		time.Sleep(90 * time.Second)
		if _, ok := e.Get("two"); !ok {
			t.Error("the object did not expire")
		}
	})
}

// The function gets the whole content after each change.
func TestUndelta(t *testing.T) {
	var told []string
	u := store.NewUndelta(key, func(all []thing) { told = append(told, names(all)) })
	u.Add(thing{name: "a"})
	u.Update(thing{name: "b"})
	u.Delete(thing{name: "a"})
	u.Bookmark("5")
	u.Resync()
	u.Replace([]thing{{name: "x"}, {name: "y"}}, "7")
	assert.Equal(t, strings.Join(told, ", "), "a, a b, b, b, x y")
	if _, ok := u.Get("x"); !ok || len(u.List()) != 2 {
		t.Error("Get or List returns the wrong content")
	}
}
