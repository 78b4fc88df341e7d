package storetest

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
)

func names(seq iter.Seq[*store.Object]) string {
	var all []string
	for obj := range seq {
		all = append(all, obj.Key.Resource+"/"+obj.Key.Namespace+"/"+obj.Key.Name)
	}
	return strings.Join(all, " ")
}

// Scans return a resource's objects in the order of namespace and name, from any key on. Counts and
// the list of resources agree with them.
func testScan(t *testing.T, s *store.Store) {
	for _, k := range []store.Key{
		{Resource: "pods", Namespace: "b", Name: "x"}, {Resource: "pods", Namespace: "a-b", Name: "x"},
		{Resource: "pods", Namespace: "a", Name: "y"},
		{Resource: "pods", Namespace: "a", Name: "x-1"}, {Resource: "pods", Namespace: "a", Name: "x"},
		{Resource: "nodes", Name: "n2"},
		{Resource: "nodes", Name: "n1"}, {Resource: "pods.example.com", Namespace: "a", Name: "x"},
		{Resource: "po", Namespace: "a", Name: "x"},
	} {
		put(t, s, k, object("", ""))
	}
	sn := s.Snapshot()
	for _, test := range []struct {
		resource, namespace string
		after               store.Key
		want                string
	}{
		{"pods", "", store.Key{}, "pods/a-b/x pods/a/x pods/a/x-1 pods/a/y pods/b/x"},
		{"pods", "", store.Key{Resource: "pods", Namespace: "a-b", Name: "x"}, "pods/a/x pods/a/x-1 pods/a/y pods/b/x"},
		{"pods", "a", store.Key{}, "pods/a/x pods/a/x-1 pods/a/y"},
		{"pods", "a-b", store.Key{}, "pods/a-b/x"},
		{"pods", "", store.Key{Resource: "pods", Namespace: "a", Name: "x"}, "pods/a/x-1 pods/a/y pods/b/x"},
		{"pods", "a", store.Key{Resource: "pods", Namespace: "a", Name: "x-1"}, "pods/a/y"},
		{"pods", "a", store.Key{Resource: "pods", Namespace: "a", Name: "w (never was)"},
			"pods/a/x pods/a/x-1 pods/a/y"},
		{"pods", "b", store.Key{Resource: "pods", Namespace: "a", Name: "x"}, "pods/b/x"},
		{"pods", "a", store.Key{Resource: "pods", Namespace: "b", Name: "x"}, ""},
		{"pods", "c", store.Key{}, ""},
		{"nodes", "", store.Key{}, "nodes//n1 nodes//n2"},
		{"nodes", "", store.Key{Resource: "nodes", Name: "n1"}, "nodes//n2"},
		{"none", "", store.Key{}, ""},
	} {
		if got := names(sn.Scan(test.resource, test.namespace, test.after)); got != test.want {
			t.Errorf("scan %s in %q after %v:\ngot  %s\nwant %s", test.resource, test.namespace, test.after, got,
				test.want)
		}
		if test.after == (store.Key{}) {
			if got, want := sn.Count(test.resource, test.namespace), len(strings.Fields(test.want)); got != want {
				t.Errorf("count %s in %q: %d, want %d", test.resource, test.namespace, got, want)
			}
		}
	}
	if got := strings.Join(slices.Collect(sn.Resources()), " "); got != "nodes po pods pods.example.com" {
		t.Errorf("resources %s", got)
	}
	if got, want := names(sn.InNamespace("a")),
		"po/a/x pods/a/x pods/a/x-1 pods/a/y pods.example.com/a/x"; got != want {
		t.Errorf("in namespace a: %s", got)
	}
	for _, seq := range []iter.Seq[*store.Object]{sn.Scan("pods", "", store.Key{}), sn.InNamespace("a")} {
		n := 0
		for range seq {
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("broke off after %d objects", n)
		}
	}
	commit(t, s, store.Op{Key: store.Key{Resource: "po", Namespace: "a", Name: "x"}, Expect: store.AnyRevision})
	if got := strings.Join(slices.Collect(s.Snapshot().Resources()), " "); got != "nodes pods pods.example.com" {
		t.Errorf("resources %s, after the last po was deleted", got)
	}
}

func testIndexes(t *testing.T, s *store.Store) {
	want := func(uid, dependents string) {
		t.Helper()
		if got := names(s.Snapshot().Dependents(types(uid))); got != dependents {
			t.Errorf("dependents of %s: %q, want %q", uid, got, dependents)
		}
		check(t, s.Snapshot(), s.Follows())
	}
	const a, b = "things.example.com/default/a", "things.example.com/default/b"
	put(t, s, key("b"), object("ub", "", "o1", "o1"))
	put(t, s, key("a"), object("ua", "", "o1", "o2"))
	want("o1", a+" "+b)
	want("o2", a)
	put(t, s, key("a"), object("ua", "changed", "o1", "o2"))
	want("o1", a+" "+b)
	put(t, s, key("a"), object("ua", "", "o2", "o3"))
	want("o1", b)
	want("o3", a)
	if got := s.Snapshot().ByUID("ua"); got != s.Snapshot().Get(key("a")) {
		t.Errorf("by uid: %v", got)
	}
	put(t, s, key("a"), object("ua2", ""))
	want("o2", "")
	if sn := s.Snapshot(); sn.ByUID("ua") != nil || sn.ByUID("ua2") != sn.Get(key("a")) || sn.ByUID("") != nil {
		t.Error("the index has not followed a changed uid")
	}
	commit(t, s, store.Op{Key: key("b"), Expect: store.AnyRevision})
	want("o1", "")
	if s.Snapshot().ByUID("ub") != nil {
		t.Error("the index finds a deleted object")
	}
	want("", "")
}

func testSnapshotsDoNotChange(t *testing.T, s *store.Store) {
	put(t, s, key("a"), object("ua", "1", "o"))
	sn := s.Snapshot()
	put(t, s, key("a"), object("ua", "2"))
	put(t, s, key("b"), object("ub", "1", "o"))
	commit(t, s, store.Op{Key: key("a"), Expect: store.AnyRevision})
	if got := names(sn.Scan(key("").Resource, "", store.Key{})); got != "things.example.com/default/a" ||
		payload(t, sn.Get(key("a"))) != "1" {
		t.Errorf("the snapshot changed: %s", got)
	}
	check(t, sn, s.Follows())
	check(t, s.Snapshot(), s.Follows())
}

// At returns each earlier state with the same content, and ErrFuture for a revision that does not
// exist yet.
func testAt(t *testing.T, s *store.Store) {
	var want []*store.Snapshot
	step := func() { want = append(want, s.Snapshot()) }
	step()
	put(t, s, key("a"), object("ua", "1", "o"))
	step()
	put(t, s, key("a"), object("ua", "2"))
	step()
	put(t, s, store.Key{Resource: "nodes", Name: "n"}, object("un", "1", "ua"))
	step()
	commit(t, s, store.Op{Key: key("a"), Expect: store.AnyRevision})
	step()
	put(t, s, key("a"), object("ua2", "3", "o"))
	step()
	for _, w := range want {
		got, err := s.At(w.Revision())
		if err != nil {
			t.Fatalf("at %d: %v", w.Revision(), err)
		}
		check(t, got, s.Follows())
		if got.Revision() != w.Revision() || contents(got) != contents(w) {
			t.Errorf("at %d:\ngot  %s\nwant %s", w.Revision(), contents(got), contents(w))
		}
	}
	if _, err := s.At(s.Snapshot().Revision() + 1); !errors.Is(err, store.ErrFuture) {
		t.Errorf("at a future revision: %v", err)
	}
}

func testPinnedRevisions(t *testing.T, s *store.Store) {
	put(t, s, key("a"), object("ua", "1", "o"))
	sn := s.Snapshot()
	put(t, s, key("a"), object("ua", "2", "o"))
	unpinned := s.Snapshot()
	s.Pin(sn)
	s.Pin(sn)
	compact(t, s, unpinned.Revision())
	if got, err := s.At(sn.Revision()); err != nil || contents(got) != contents(sn) {
		t.Errorf("the pinned revision: %v", err)
	}
	if _, err := s.At(unpinned.Revision()); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a revision before the log: %v", err)
	}
}

// virtualTests are the tests that need virtual time.
func virtualTests() []test {
	return []test{{"PinsEnd", func(t *testing.T, s *store.Store) {
		put(t, s, key("a"), object("ua", "1"))
		sn := s.Snapshot()
		s.Pin(sn)
		compact(t, s, sn.Revision())
		time.Sleep(5 * time.Minute)
		put(t, s, key("a"), object("ua", "2"))
		if _, err := s.At(sn.Revision()); err != nil {
			t.Errorf("pinned for five minutes: %v", err)
		}
		time.Sleep(time.Hour)
		put(t, s, key("a"), object("ua", "3"))
		if _, err := s.At(sn.Revision()); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("still pinned after an hour: %v", err)
		}
	}}, {"PagesEnd", func(t *testing.T, s *store.Store) {
		put(t, s, key("a"), object("ua", "1"))
		sn := s.Snapshot()
		s.Pin(sn)
		put(t, s, key("a"), object("ua", "2"))
		for range 2 { // repeated requests do not extend a pin
			time.Sleep(2 * time.Minute)
			if _, err := s.Pinned(sn.Revision()); err != nil {
				t.Errorf("pinned for five minutes: %v", err)
			}
			s.Pin(sn)
		}
		time.Sleep(2 * time.Minute)
		if _, err := s.Pinned(sn.Revision()); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("the pin has ended: %v", err)
		}
		if got, err := s.At(sn.Revision()); err != nil || contents(got) != contents(sn) {
			t.Errorf("the log still has it: %v", err)
		}
		if _, err := s.Pinned(s.Snapshot().Revision()); err != nil {
			t.Errorf("the newest revision: %v", err)
		}
	}}}
}

// Forks start with the snapshot's state, continue with its next revision, and change neither the
// forked store nor each other.
func testFork(t *testing.T, s *store.Store) {
	put(t, s, key("a"), object("ua", "1", "o"))
	sn := s.Snapshot()
	put(t, s, key("a"), object("ua", "2", "o"))
	before := contents(s.Snapshot())
	forks := []*store.Store{sn.Fork(), sn.Fork()}
	for i, f := range forks {
		if got := f.Snapshot(); got.Revision() != sn.Revision() || contents(got) != contents(sn) {
			t.Errorf("fork %d starts with %s", i, contents(got))
		}
		c := watch(t, f, "", sn.Revision())
		obj := put(t, f, key("a"), object("ua", fmt.Sprint("fork ", i)))
		put(t, f, key("b"), object("ub", "", "o"))
		if obj.Revision != sn.Revision()+1 {
			t.Errorf("fork %d continues with revision %d", i, obj.Revision)
		}
		if events, _ := drain(t, c); len(events) != 2 || events[0].Prev != sn.Get(key("a")) {
			t.Errorf("fork %d: %d events", i, len(events))
		}
		if _, err := f.Watch("", sn.Revision()-1); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("fork %d, watch from before it: %v", i, err)
		}
		check(t, f.Snapshot(), false)
	}
	for i, f := range forks {
		if got := payload(t, f.Snapshot().Get(key("a"))); got != fmt.Sprint("fork ", i) {
			t.Errorf("fork %d has %q", i, got)
		}
		if err := f.Close(); err != nil {
			t.Errorf("close fork %d: %v", i, err)
		}
	}
	if got := contents(s.Snapshot()); got != before {
		t.Errorf("the forked store changed to %s", got)
	}
}
