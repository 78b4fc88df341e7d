//go:build linux

// Package balancer connects the programs of a node to one of several API servers.
//
//	kubelet, kube-proxy ──▶ 127.0.0.1:6444 ──▶ a server that is ready
//
// It forwards TCP connections, so clients and servers verify each other's certificates. It uses one
// server as long as that server is ready. When the server is not ready, the balancer closes the
// connections to it, and clients connect again, to another server.
package balancer

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// interval is the time between two probes of a server.
	interval = 3 * time.Second
	// answerWithin limits a probe and a dial.
	answerWithin = 3 * time.Second
	// failures is the number of failed probes in a row after which a server is not ready.
	failures = 2
)

// Balancer forwards connections to servers.
type Balancer struct {
	listener net.Listener
	servers  []*server
	log      *slog.Logger
	interval time.Duration

	mu      sync.Mutex
	current int // index of the server that gets the next connection
}

// server is one API server. The mutex of the Balancer guards failed and open.
type server struct {
	url    string
	host   string // with the port
	failed int    // probes in a row
	open   map[net.Conn]bool
}

// Listen listens at an address for connections to the servers of https URLs. It begins with a
// random server, so that nodes spread over the servers.
func Listen(address string, urls []string, log *slog.Logger) (*Balancer, error) {
	b := &Balancer{log: log, interval: interval, current: rand.IntN(len(urls))}
	for _, at := range urls {
		u, err := url.Parse(at)
		if err != nil {
			return nil, err
		}
		host := u.Host
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), "443")
		}
		b.servers = append(b.servers, &server{url: at, host: host, open: map[net.Conn]bool{}})
	}
	var err error
	if b.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fmt.Errorf("listen for connections to the servers: %w", err)
	}
	return b, nil
}

// URL returns the address at which clients reach a server.
func (b *Balancer) URL() string { return "https://" + b.listener.Addr().String() }

// Run forwards connections until ctx ends, and then closes them.
func (b *Balancer) Run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	defer context.AfterFunc(ctx, func() { b.listener.Close() })()
	for _, s := range b.servers {
		parts.Go(func() { b.probe(ctx, s) })
	}
	for {
		client, err := b.listener.Accept()
		if ctx.Err() != nil {
			return
		}
		if err != nil { // such as too many open files
			b.log.Warn("accept a connection to the servers", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		parts.Go(func() { b.forward(ctx, client) })
	}
}

// forward copies bytes between client and a server until either side ends.
func (b *Balancer) forward(ctx context.Context, client net.Conn) {
	defer client.Close()
	s, conn := b.dial(ctx)
	if conn == nil {
		return
	}
	defer func() {
		conn.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(s.open, conn)
	}()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, client)
		conn.Close()
	}()
	_, _ = io.Copy(client, conn)
	client.Close()
	<-done
}

// dial connects to the current server, or to the next one that accepts. It tries servers that are
// not ready last. It returns nil if none accepts.
func (b *Balancer) dial(ctx context.Context) (*server, net.Conn) {
	for _, i := range b.order() {
		s := b.servers[i]
		dialer := net.Dialer{Timeout: answerWithin}
		conn, err := dialer.DialContext(ctx, "tcp", s.host)
		if err != nil {
			continue
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.current != i {
			b.current = i
			b.log.Info("connected to another server", "server", s.url)
		}
		s.open[conn] = true
		return s, conn
	}
	return nil, nil
}

// order returns the indexes of the servers, beginning with the current one; servers that are ready
// come before those that are not.
func (b *Balancer) order() (order []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last []int
	for n := range b.servers {
		i := (b.current + n) % len(b.servers)
		if b.servers[i].failed < failures {
			order = append(order, i)
		} else {
			last = append(last, i)
		}
	}
	return append(order, last...)
}

// probe checks whether a server is ready, until ctx ends.
func (b *Balancer) probe(ctx context.Context, s *server) {
	// The response decides only where connections go; clients verify the server.
	h := &http.Client{Timeout: answerWithin, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	tick := time.NewTicker(b.interval)
	defer tick.Stop()
	for {
		err := ready(ctx, h, s.url)
		if ctx.Err() != nil {
			return
		}
		b.record(s, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ready returns an error if the server at a URL does not respond, or reports that it is not ready.
// Servers that reject anonymous requests count as ready.
func ready(ctx context.Context, h *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("/readyz: %s", resp.Status)
	}
	return nil
}

// record records the result of a probe. If the server is not ready and another one is, record
// closes the server's connections.
func (b *Balancer) record(s *server, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		if s.failed >= failures {
			b.log.Info("the server is ready again", "server", s.url)
		}
		s.failed = 0
		return
	}
	if s.failed++; s.failed == failures {
		b.log.Warn("the server is not ready", "server", s.url, "err", err)
	}
	if s.failed < failures {
		return
	}
	for _, other := range b.servers {
		if other.failed < failures {
			for conn := range s.open {
				conn.Close()
			}
			return
		}
	}
}
