package storetest

import (
	"testing"

	"kelson.dev/apiserver/store"
)

// Fill opens an empty backend, appends each record as a batch, and closes the backend. Unlike a
// store, it checks no limits, so that tests can write states which only earlier versions wrote.
func Fill(t testing.TB, open func() (store.Backend, error), records ...store.Record) {
	t.Helper()
	b, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Load(func(store.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := b.Append([]store.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
