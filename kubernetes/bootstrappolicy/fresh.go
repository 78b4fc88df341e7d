package bootstrappolicy

import (
	"context"
	"sync"
	"time"

	"kelson.dev/apiserver/store"
)

// shareFor is the maximum age of shared objects when a store is created with them.
const shareFor = time.Minute

// prepared contains the newest states that Fresh has made. The index is Config.Aggregated.
var prepared struct {
	sync.Mutex
	states [2]*state
}

type state struct {
	snapshot *store.Snapshot
	created  int64 // in seconds since 1970; a testing/synctest bubble has a clock of its own
}

// Fresh returns a new store in memory with the objects of the policy. Stores that a process creates
// within a minute share these objects, with their uids and creation timestamps, because the objects
// use most of the memory of an idle control plane. The caller must close the store.
func Fresh(ctx context.Context, aggregated bool) (*store.Store, error) {
	prepared.Lock()
	defer prepared.Unlock()
	at := 0
	if aggregated {
		at = 1
	}
	now := time.Now().Unix()
	if s := prepared.states[at]; s != nil && s.created <= now && now < s.created+int64(shareFor/time.Second) {
		return s.snapshot.Fork(), nil
	}
	st, err := store.Open(store.Config{})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := Ensure(ctx, Config{Store: st, Aggregated: aggregated}); err != nil {
		return nil, err
	}
	s := &state{st.Snapshot(), now}
	prepared.states[at] = s
	return s.snapshot.Fork(), nil
}
