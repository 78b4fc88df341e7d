package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"kelson.dev/apiserver/attacktest/clients"
)

// stream is an HTTP/2 connection that opens streams. It extends their flow-control windows only in
// trickle, so it otherwise reads only frames without flow control.
type stream struct {
	t      *target
	conn   *clients.Conn
	places chan struct{} // one element for each stream that may still be opened
	closed chan struct{} // closed when the server takes no more streams

	mu    sync.Mutex
	open  map[uint32]bool
	ended map[uint32]bool // streams that ended before request recorded them as open
}

// dial connects as a user. window is the flow-control window of each stream. streams is the maximum
// number of open streams, if the server allows that many. The connection ends with ctx.
func (t *target) dial(ctx context.Context, user string, window uint32, streams int) (*stream, error) {
	config, err := t.tls(user)
	if err != nil {
		return nil, err
	}
	s := &stream{t: t, closed: make(chan struct{}), open: map[uint32]bool{}, ended: map[uint32]bool{}}
	ready := make(chan struct{})
	s.conn, err = clients.DialContext(ctx, t.addr, config, clients.Options{
		Settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: window}},
		Frame: func(frame http2.Frame) {
			if settings, ok := frame.(*http2.SettingsFrame); ok && s.places == nil && !settings.IsAck() {
				s.allow(settings, streams)
				close(ready)
			}
			s.took(frame)
		},
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-ready:
		return s, nil
	case <-s.conn.Done():
		return nil, fmt.Errorf("read settings: %w", net.ErrClosed)
	}
}

// allow adds tokens for the streams that the server allows.
func (s *stream) allow(settings *http2.SettingsFrame, streams int) {
	if allowed, ok := settings.Value(http2.SettingMaxConcurrentStreams); ok {
		streams = min(streams, int(allowed))
	}
	s.places = make(chan struct{}, streams)
	for range streams {
		s.places <- struct{}{}
	}
}

// took counts responses and ended streams.
func (s *stream) took(frame http2.Frame) {
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		s.t.record(f.PseudoValue("status"))
		if f.StreamEnded() {
			s.end(f.StreamID)
		}
	case *http2.DataFrame:
		if f.StreamEnded() {
			s.end(f.StreamID)
		}
	case *http2.RSTStreamFrame:
		s.t.record("reset")
		s.end(f.StreamID)
	case *http2.GoAwayFrame:
		// After a GOAWAY, open streams stay open. Anonymous connections get a GOAWAY with their
		// first response.
		select {
		case <-s.closed:
		default:
			close(s.closed)
		}
	}
}

func (s *stream) end(id uint32) {
	s.mu.Lock()
	known := s.open[id]
	delete(s.open, id)
	if !known {
		s.ended[id] = true
	}
	s.mu.Unlock()
	if known {
		s.places <- struct{}{}
	}
}

// request waits until the server allows another stream, and opens one with pseudo-headers and
// headers in pairs. If it announces a body, it never sends the body.
func (s *stream) request(ctx context.Context, method, path string, body bool, headers ...string) error {
	select {
	case <-s.places:
	case <-s.closed:
		return net.ErrClosed
	case <-s.conn.Done():
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-s.closed: // places may still have tokens
		return net.ErrClosed
	default:
	}
	id, err := s.conn.Request(method, path, !body, headers...)
	if err != nil {
		return err
	}
	s.t.record("requests")
	s.mu.Lock()
	ended := s.ended[id]
	delete(s.ended, id)
	if !ended {
		s.open[id] = true
	}
	s.mu.Unlock()
	if ended {
		s.places <- struct{}{}
	}
	return nil
}

// trickle lets each open stream send a few more bytes every second, until ctx ends.
func (s *stream) trickle(ctx context.Context, bytes uint32) {
	for ctx.Err() == nil {
		sleep(ctx, time.Second)
		s.mu.Lock()
		for id := range s.open {
			_ = s.conn.Window(id, bytes)
		}
		s.mu.Unlock()
	}
}

// connections runs do on n connections of a user at a time. It replaces connections that end, until
// it has opened limit connections or ctx ends.
func (t *target) connections(ctx context.Context, user string, n, limit int, window uint32, streams int,
	do func(*stream)) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := 0; i < limit/n && ctx.Err() == nil; i++ {
				s, err := t.dial(ctx, user, window, streams)
				if err != nil {
					t.record("no connection")
					sleep(ctx, 100*time.Millisecond)
					continue
				}
				do(s)
				s.conn.Close()
			}
		})
	}
	wg.Wait()
}
