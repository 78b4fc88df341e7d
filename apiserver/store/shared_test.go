package store_test

import (
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
)

// API-13
func TestSharedLog(t *testing.T) {
	for name, lazy := range map[string]bool{"eager": false, "lazy": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) *store.Store {
				s, err := store.Open(store.Config{Shared: storetest.NewLog().Shared(lazy), Retain: 500})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			})
		})
	}
}
