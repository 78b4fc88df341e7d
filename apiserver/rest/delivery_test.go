package rest

import (
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A write is answered while a watch still sends its event. The next write waits for this event,
// also if it writes another resource.
func TestDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.New(t, store.Config{})
		write := func(resource, name string) []*store.Object {
			op := store.Op{Key: store.Key{Resource: resource, Name: name}, Data: []byte(`{"metadata":{}}`)}
			objs, err := s.Commit(t.Context(), op)
			require.NoError(t, err)
			return objs
		}
		write("namespaces", "a")
		watch, err := s.Watch("namespaces", s.Snapshot().Revision())
		require.NoError(t, err)
		watch.Delivered()
		defer watch.Leave()

		var d deliveries
		waits := func() time.Duration {
			begin := time.Now()
			d.await(t.Context(), s)
			return time.Since(begin)
		}
		assert.Equalf(t, waits(), 0, "the first write waited")
		// nil: the operation of a request that wrote nothing
		d.add(append(write("namespaces", "b"), nil))
		d.add(write("configmaps", "c"))
		const sending = 3 * time.Millisecond
		go func() {
			time.Sleep(sending)
			_, _, err := watch.Next()
			assert.NoError(t, err)
			watch.Delivered()
		}()
		if took := waits(); took != sending {
			t.Errorf("the next write waited %s for an event that takes %s", took, sending)
		}
		if took := waits(); took != 0 || len(d.pending) != 0 {
			t.Errorf("after the event was sent, a write waited %s; pending: %v", took, d.pending)
		}
	})
}
