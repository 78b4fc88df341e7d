package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// records yields a number of objects of two resources. Every third one has an owner, every fifth
// one no uid.
func records(n int) (all []Record) {
	for i := range n {
		resource, metadata := "pods", fmt.Sprintf(`"name":"o%05d"`, i)
		if i%2 == 0 {
			resource = "configmaps"
		}
		if i%5 != 0 {
			metadata += fmt.Sprintf(`,"uid":"u-%d"`, i*7919%n)
		}
		if i%3 == 0 {
			metadata += fmt.Sprintf(`,"ownerReferences":[{"uid":"u-%d"},{"uid":""}]`, i)
		}
		all = append(all, Record{Key: Key{resource, fmt.Sprintf("ns-%d", i%3), fmt.Sprintf("o%05d", i)},
			Revision: uint64(i + 2), Created: uint64(i + 2), Data: []byte(`{"metadata":{` + metadata + `}}`)})
	}
	return all
}

// A loader makes the same state as single writes, from few and from many records, in any order.
func TestLoader(t *testing.T) {
	for _, n := range []int{0, 1, loadBatch, loadBatch + 1, 5*loadBatch + 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			want, got := newView(), newView()
			l := newLoader(&got, nil)
			all := records(n)
			for _, r := range all {
				obj, err := loadObject(r, nil)
				require.NoError(t, err)
				want.replace(nil, obj)
			}
			slices.Reverse(all[n/2:])
			for _, r := range all {
				require.NoError(t, l.add(r))
			}
			require.NoError(t, l.finish())
			if got.bytes != want.bytes {
				t.Errorf("%d bytes, want %d", got.bytes, want.bytes)
			}
			for name, keys := range map[string][2][]string{
				"objects": {got.objects.Keys(), want.objects.Keys()},
				"uids":    {got.uids.Keys(), want.uids.Keys()},
				"owners":  {got.owners.Keys(), want.owners.Keys()},
				"counts":  {counted(got), counted(want)},
			} {
				if !slices.Equal(keys[0], keys[1]) {
					t.Errorf("%s: %d entries, want %d", name, len(keys[0]), len(keys[1]))
				}
			}
			want.objects.Scan(func(path string, obj *Object) bool {
				loaded, _ := got.objects.Get(path)
				if loaded == nil || loaded.Key != obj.Key || loaded.Revision != obj.Revision ||
					string(loaded.Data) != string(obj.Data) || loaded.Head.UID != obj.Head.UID {
					t.Errorf("%s: %+v", path, loaded)
				}
				return true
			})
		})
	}
}

func counted(v view) []string {
	counts := map[string]bool{}
	v.counts.Scan(func(resource string, n int) bool {
		counts[fmt.Sprint(resource, n)] = true
		return true
	})
	return slices.Sorted(maps.Keys(counts))
}

// A record that is not an object ends the load, wherever it is, with its key in the error.
func TestLoaderFails(t *testing.T) {
	for _, at := range []int{0, loadBatch, 2*loadBatch + 7, 4*loadBatch - 1} {
		v := newView()
		l := newLoader(&v, nil)
		all := records(4 * loadBatch)
		all[at].Data = []byte("{")
		var err error
		for _, r := range all {
			if err = l.add(r); err != nil {
				break
			}
		}
		if failed := l.finish(); err == nil {
			err = failed
		}
		if err == nil || !strings.Contains(err.Error(), all[at].Key.Name) {
			t.Errorf("record %d: the error is %v", at, err)
		}
	}
}
