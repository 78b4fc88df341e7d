package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/etcd"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A store that can't reach the cluster returns errors. Afterwards it continues from its revision,
// or reports lost events if the history was compacted in the meantime.
func TestCutOff(t *testing.T) {
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprint("forgotten=", forget), func(t *testing.T) { testCutOff(t, forget) })
	}
}

func testCutOff(t *testing.T, forget bool) {
	c := startCluster(t, 1, "http")
	if c.net.whole {
		t.Skip("isolating members needs /proc")
	}
	c.healthy(t)
	log, err := etcd.Open(t.Context(), etcd.Config{Endpoints: c.endpoints()})
	require.NoError(t, err)
	near := storetest.New(t, store.Config{Shared: log})

	address, err := url.Parse(c.members[0].client)
	require.NoError(t, err)
	const us = 1
	between := newNetwork(t)
	between.owns(us, os.Getpid())
	way := &cluster{members: []*member{{client: "http://" + between.proxy(0, address.Host)}}}
	far := open(t, way, "", 0)

	write := func(s *store.Store, name string) uint64 {
		t.Helper()
		objects, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "things", Name: name},
			Data: []byte(`{"metadata":{}}`), Expect: store.AnyRevision})
		require.NoError(t, err)
		return objects[0].Revision
	}
	begin := write(far, "first")
	cursor, err := far.Watch("things", begin)
	require.NoError(t, err)

	between.isolate(false, us)
	last := uint64(0)
	for i := range 20 {
		last = write(near, fmt.Sprint("missed", i))
	}
	_, err = near.Commit(t.Context(), store.Op{Key: store.Key{Resource: "things", Name: "first"}, Expect: begin})
	require.NoError(t, err)
	last++
	if forget {
		require.NoError(t, log.Compact(t.Context(), last))
	}
	ask, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	_, err = far.Fresh(ask)
	assert.ErrorIsf(t, err, context.DeadlineExceeded, "want an error while the store is isolated")
	cancel()
	ask, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	if _, err := far.Commit(ask, store.Op{Key: store.Key{Resource: "things", Name: "lost"},
		Data: []byte(`{"metadata":{}}`)}); err == nil {
		t.Error("an impossible write was acknowledged")
	}
	cancel()
	assert.Equalf(t, far.Snapshot().Revision(), begin, "the state has revision")

	between.heal()
	ask, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sn, err := far.Fresh(ask)
	require.NoError(t, err)
	if sn.Count("things", "") != 20 || sn.Get(store.Key{Resource: "things", Name: "first"}) != nil ||
		sn.Revision() != last {
		t.Errorf("%d objects at %d, want 20 at %d", sn.Count("things", ""), sn.Revision(), last)
	}
	events, until, err := cursor.Next()
	switch {
	case forget && !errors.Is(err, store.ErrCompacted):
		t.Errorf("%d events until %d, error %v; want an error for lost events", len(events), until, err)
	case !forget && (err != nil || len(events) != 21 || until != last):
		t.Errorf("%d events until %d, error %v; want 21 until %d", len(events), until, err, last)
	}
	write(far, "after")
	if _, err := near.Fresh(ask); err != nil ||
		near.Snapshot().Get(store.Key{Resource: "things", Name: "after"}) == nil {
		t.Errorf("later writes are not visible: %v", err)
	}
}
