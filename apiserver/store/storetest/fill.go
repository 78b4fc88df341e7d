package storetest

import (
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// Fill opens an empty backend, appends each record as a batch, and closes the backend. Unlike a
// store, it checks no limits, so that tests can write states which only earlier versions wrote.
func Fill(t testing.TB, open func() (store.Backend, error), records ...store.Record) {
	t.Helper()
	b, err := open()
	require.NoError(t, err)
	_, err = b.Load(func(store.Record) error { return nil })
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, b.Append([]store.Record{r}))
	}
	require.NoError(t, b.Close())
}
