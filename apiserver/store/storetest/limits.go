package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
)

// ObjectOf returns an object, and its key, that have exactly a size as store.MaxObject limits it.
func ObjectOf(name string, size int) (store.Key, []byte) {
	key, frame := key(name), `{"metadata":{"uid":""},"payload":""}`
	const request = 512 // what the store adds for a request to etcd
	used := request + len(key.Resource) + len(key.Namespace) + len(key.Name) + len(frame)
	return key, []byte(strings.Replace(frame, `"payload":""`, `"payload":"`+strings.Repeat("x", size-used)+`"`, 1))
}

// ObjectIn returns an object whose JSON nests values to a depth.
func ObjectIn(depth int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":"{[\""},"payload":%s%s}`, bytes.Repeat([]byte("["), depth-1),
		bytes.Repeat([]byte("]"), depth-1))
}

// testLimits writes what a store must accept at most, and what it must refuse. A store that accepts
// a write can be read again; see also TestLimits of package disk.
func testLimits(t *testing.T, s *store.Store) {
	k, most := ObjectOf("a", store.MaxObject)
	large := commit(t, s, store.Op{Key: k, Data: most})[0]
	commit(t, s, store.Op{Key: key("deep"), Data: ObjectIn(store.MaxDepth)})
	before := s.Snapshot().Revision()
	_, more := ObjectOf("a", store.MaxObject+1)
	for _, test := range []struct {
		name string
		ops  []store.Op
		want error
	}{
		{"a large object", []store.Op{{Key: key("b"), Data: more}}, store.ErrTooLarge},
		{"a large update", []store.Op{{Key: k, Data: more, Expect: large.Revision}}, store.ErrTooLarge},
		{"a unit with a large object", []store.Op{{Key: key("c"), Data: object("", "")}, {Key: key("b"), Data: more}},
			store.ErrTooLarge},
		{"a deep object", []store.Op{{Key: key("b"), Data: ObjectIn(store.MaxDepth + 1)}}, store.ErrTooDeep},
		{"a deep update", []store.Op{{Key: key("deep"), Data: ObjectIn(store.MaxDepth + 1), Expect: store.AnyRevision}},
			store.ErrTooDeep},
		{"a large unit", largeUnit(), store.ErrTooLarge},
	} {
		if _, err := s.Commit(context.Background(), test.ops...); !errors.Is(err, test.want) ||
			!errors.Is(err, store.ErrNotWritten) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if now := s.Snapshot().Revision(); now != before || s.Failed() != nil {
		t.Errorf("refused writes have an effect: revision %d, before %d; %v", now, before, s.Failed())
	}
	put(t, s, key("b"), object("", "afterwards"))
	commit(t, s, store.Op{Key: k, Expect: large.Revision})
}

// largeUnit returns ops that exceed store.MaxUnit, and whose objects do not exceed
// store.MaxObject. They share the bytes of one object.
func largeUnit() []store.Op {
	_, data := ObjectOf("a name longer than theirs", store.MaxObject)
	ops := make([]store.Op, store.MaxUnit/store.MaxObject+1)
	for i := range ops {
		ops[i] = store.Op{Key: key(fmt.Sprint("unit", i)), Data: data}
	}
	return ops
}
