package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
)

// earlier is a backend with objects that exceed the limits, as earlier versions stored them.
type earlier struct {
	storetest.Backend
	records []store.Record
}

func (b *earlier) Load(each func(store.Record) error) (uint64, error) {
	for _, r := range b.records {
		if err := each(r); err != nil {
			return 0, err
		}
	}
	return uint64(1 + len(b.records)), nil
}

// Objects of earlier versions that exceed the limits can be loaded, changed without growing, and
// deleted.
func TestObjectsBeyondTheLimits(t *testing.T) {
	k, large := storetest.ObjectOf("large", 2*store.MaxObject)
	b := &earlier{records: []store.Record{
		{Key: k, Revision: 2, Created: 2, Data: large},
		{Key: thing("deep"), Revision: 3, Created: 3, Data: storetest.ObjectIn(2 * store.MaxDepth)},
	}}
	s := store.OpenChecked(t, store.Config{Backend: b})
	marked := func(data []byte) []byte {
		return []byte(strings.Replace(string(data), `"metadata":{`,
			`"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z",`, 1))
	}
	for _, test := range []struct {
		name string
		key  store.Key
		data []byte
		want error
	}{
		{"grows", k, append(bytes.Repeat([]byte(" "), 100), s.Snapshot().Get(k).Data...), store.ErrTooLarge},
		{"does not grow", k, s.Snapshot().Get(k).Data, nil},
		{"is deleted", k, marked(s.Snapshot().Get(k).Data), nil},
		{"grows while being deleted", k, append(bytes.Repeat([]byte(" "), 100), marked(s.Snapshot().Get(k).Data)...),
			store.ErrTooLarge},
		{"deep, grows", thing("deep"), storetest.ObjectIn(2*store.MaxDepth + 100), store.ErrTooDeep},
		{"deep, does not grow", thing("deep"), storetest.ObjectIn(2*store.MaxDepth - 100), nil},
	} {
		if _, err := s.Commit(t.Context(), store.Op{Key: test.key, Data: test.data, Expect: store.AnyRevision}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if _, err := s.Commit(t.Context(), store.Op{Key: k, Expect: store.AnyRevision}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// However many writes wait, a backend never gets more than MaxUnit bytes at once.
func TestLargeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		largest, appends := 0, 0
		b := newSlow()
		b.Before = func(records []store.Record) error {
			size := 0
			for _, r := range records {
				size += len(r.Data)
			}
			largest = max(largest, size)
			appends++
			return <-b.let
		}
		s := store.OpenChecked(t, store.Config{Backend: b})
		first := commit(t.Context(), s, create("first"))
		const writes = 2*store.MaxUnit/store.MaxObject + 1
		waiting := make([]*outcome, writes)
		for i := range waiting {
			k, data := storetest.ObjectOf(fmt.Sprintf("large%03d", i), store.MaxObject)
			waiting[i] = commit(t.Context(), s, store.Op{Key: k, Data: data})
		}
		for range 4 {
			b.let <- nil
			synctest.Wait()
		}
		first.want(t, true, nil)
		for _, o := range waiting {
			o.want(t, true, nil)
		}
		if largest > store.MaxUnit || appends != 4 {
			t.Errorf("%d appends of up to %d bytes", appends, largest)
		}
	})
}
