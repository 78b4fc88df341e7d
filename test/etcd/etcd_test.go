// Package etcd_test tests stores over etcd, on clusters of real processes: with the suite of all
// stores, with faults, and with several servers over one state.
package etcd_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/etcd"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// open returns a store with its own client.
func open(t *testing.T, c *cluster, prefix string, retain int) *store.Store {
	t.Helper()
	log, err := etcd.Open(t.Context(), etcd.Config{Endpoints: c.endpoints(), Prefix: prefix, Timeout: 5 * time.Second})
	require.NoError(t, err)
	s := storetest.New(t, store.Config{Shared: log, Retain: retain, Log: slog.New(slog.DiscardHandler)})
	storetest.Guard(t, s)
	return s
}

// The suite of all stores passes over a real etcd cluster of three members.
func TestStore(t *testing.T) {
	c := startCluster(t, 3, "http")
	c.healthy(t)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) *store.Store { return open(t, c, fmt.Sprint("/test", n.Add(1)), 500) })
}
