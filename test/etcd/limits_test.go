package etcd_test

import (
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Stores refuse an object with the words of etcd, and at the size at which etcd refuses requests.
func TestWordsOfLargeRequests(t *testing.T) {
	c := startCluster(t, 1, "http")
	c.healthy(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints()})
	require.NoError(t, err)
	defer client.Close()
	const key = "/large"
	_, err = client.Put(t.Context(), key, string(make([]byte, store.MaxObject-512)))
	assert.NoErrorf(t, err, "an object that a store accepts")
	_, err = client.Put(t.Context(), key, string(make([]byte, store.MaxObject+1)))
	if got, want := rpctypes.ErrorDesc(err), store.ErrTooLarge.Error(); got != want {
		t.Errorf("etcd refuses with %q (%v), stores with %q", got, err, want)
	}
	s := open(t, c, "/limits", 0)
	large, data := storetest.ObjectOf("a", store.MaxObject+1)
	if _, err := s.Commit(t.Context(), store.Op{Key: large, Data: data}); err == nil ||
		err.Error() != store.ErrTooLarge.Error() {
		t.Errorf("a store over etcd refuses with %v", err)
	}
}
