package etcd_test

import (
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"kelson.dev/server/store"
	"kelson.dev/server/store/etcd"
	"kelson.dev/server/store/storetest"
)

// start runs one member in this process.
func start(t *testing.T) (endpoint string) {
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{"/dev/null"}
	any := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = any, any
	member, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	select {
	case <-member.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready")
	}
	return "http://" + member.Clients[0].Addr().String()
}

// API-13
func TestStore(t *testing.T) {
	endpoint := start(t)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) *store.Store {
		log, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}, Prefix: fmt.Sprint("/test", n.Add(1))})
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(store.Config{Shared: log, Retain: 500})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}
