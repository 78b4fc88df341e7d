package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// CountAfter equals the number of objects that a scan yields.
func TestCountAfter(t *testing.T) {
	s := storetest.New(t, store.Config{})
	var keys []store.Key
	for i := range 600 {
		key := store.Key{
			Resource:  []string{"pods", "pods.a", "po", "podsx"}[rand.IntN(4)],
			Namespace: []string{"", "a", "a-b", "b"}[rand.IntN(4)],
			Name:      fmt.Sprintf("n%d", i),
		}
		data := fmt.Sprintf(`{"apiVersion":"v1","kind":"K","metadata":{"name":%q,"namespace":%q,"uid":"u%d","resourceVersion":"1"}}`, key.Name, key.Namespace, i)
		_, err := s.Commit(t.Context(), store.Op{Key: key, Data: []byte(data)})
		require.NoError(t, err)
		keys = append(keys, key)
	}
	sn := s.Snapshot()
	for _, resource := range []string{"pods", "pods.a", "po", "podsx", "none"} {
		for _, namespace := range []string{"", "a", "a-b", "b", "none"} {
			for _, after := range append(keys[:60:60], store.Key{},
				store.Key{Resource: "pods", Namespace: "a", Name: "x"}) {
				if after.Resource != resource && after != (store.Key{}) {
					continue
				}
				want := 0
				for range sn.Scan(resource, namespace, after) {
					want++
				}
				if got := sn.CountAfter(resource, namespace, after); got != want {
					t.Errorf("%s in %q after %v: %d, a scan finds %d", resource, namespace, after, got, want)
				}
				if after == (store.Key{}) && sn.Count(resource, namespace) != want {
					t.Errorf("%s in %q: %d, a scan finds %d", resource, namespace, sn.Count(resource, namespace), want)
				}
			}
		}
	}
}
