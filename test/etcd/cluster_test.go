package etcd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kelson.dev/internal/require"
)

// cluster is a set of etcd members, each a process. Their peer connections go through proxies of
// the test.
type cluster struct {
	members []*member
	net     *network
}

// member is a process that may be stopped and restarted.
type member struct {
	name    string
	args    []string
	client  string // URL
	log     string // file
	process *os.Process
	ended   chan struct{} // closed when the process has ended
}

// binary builds etcd once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../bin/peers/etcd")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path,
		"../../bench/peers/etcd").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcd: %w: %s", err, out)
	}
	return path, nil
})

// startCluster starts n members and waits until they have a leader. more are additional flags of
// each member; scheme is the scheme of their client URLs.
func startCluster(t *testing.T, n int, scheme string, more ...string) *cluster {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	c := &cluster{net: newNetwork(t)}
	var initial []string
	for i := range n {
		m := &member{name: fmt.Sprint("m", i), client: scheme + "://" + freeAddress(t)}
		peer := freeAddress(t)
		advertised := "http://" + c.net.proxy(i, peer)
		dir := t.TempDir()
		m.log = filepath.Join(dir, "log")
		m.args = append([]string{path, "--name", m.name, "--data-dir", filepath.Join(dir, "data"), "--log-level",
			"warn", "--log-outputs", m.log,
			"--listen-client-urls", m.client, "--advertise-client-urls", m.client,
			"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", advertised,
			"--initial-cluster-state", "new"}, more...)
		initial = append(initial, m.name+"="+advertised)
		c.members = append(c.members, m)
	}
	for i, m := range c.members {
		m.args = append(m.args, "--initial-cluster", strings.Join(initial, ","))
		c.start(t, i)
		t.Cleanup(m.kill)
	}
	return c
}

// freeAddress returns a free address outside of the range used for port 0, so that a killed member
// can listen on it again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	m := c.members[i]
	cmd := exec.Command(m.args[0], m.args[1:]...)
	require.NoError(t, cmd.Start())
	m.process, m.ended = cmd.Process, make(chan struct{})
	c.net.owns(i, cmd.Process.Pid)
	go func() {
		cmd.Wait()
		close(m.ended)
	}()
}

// kill kills the process if it is alive.
func (m *member) kill() {
	if m.process == nil {
		return
	}
	m.process.Kill()
	<-m.ended
	m.process = nil
}

// pause stops the process with SIGSTOP; resume continues it.
func (m *member) pause()  { m.process.Signal(syscall.SIGSTOP) }
func (m *member) resume() { m.process.Signal(syscall.SIGCONT) }

func (c *cluster) endpoints() (urls []string) {
	for _, m := range c.members {
		urls = append(urls, m.client)
	}
	return urls
}

// dial returns a client of etcd's own, which does not depend on the code under test.
func (c *cluster) dial(t *testing.T) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), DialTimeout: 10 * time.Second,
		Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// healthy waits until every member serves linearizable reads.
func (c *cluster) healthy(t *testing.T) {
	t.Helper()
	for i, m := range c.members {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, DialTimeout: 10 * time.Second,
			Logger: zap.NewNop()})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for {
			ask, done := context.WithTimeout(ctx, 2*time.Second)
			_, err = client.Get(ask, "health")
			done()
			if err == nil || ctx.Err() != nil {
				break
			}
		}
		cancel()
		client.Close()
		if err != nil {
			log, _ := os.ReadFile(m.log)
			t.Fatalf("member %d does not answer: %v\n%s", i, err, log[max(0, len(log)-2000):])
		}
	}
}
