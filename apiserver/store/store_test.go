package store_test

import (
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
)

func inMemory(t *testing.T) *store.Store { return store.OpenChecked(t, store.Config{Retain: 2000}) }

func overBackend(t *testing.T) *store.Store {
	b := &storetest.Backend{}
	t.Cleanup(func() {
		if err := b.Err(); err != nil {
			t.Error(err)
		}
	})
	return store.OpenChecked(t, store.Config{Retain: 2000, Backend: b})
}

func TestMemory(t *testing.T)         { storetest.Run(t, inMemory) }
func TestMemoryVirtual(t *testing.T)  { storetest.RunVirtual(t, inMemory) }
func TestBackend(t *testing.T)        { storetest.Run(t, overBackend) }
func TestBackendVirtual(t *testing.T) { storetest.RunVirtual(t, overBackend) }
