package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is an HTTP/2 connection that opens streams and reads only what the server may send
// regardless of flow control.
type stream struct {
	t      *target
	tls    *tls.Conn
	framer *http2.Framer
	places chan struct{} // one for each stream that may still be opened
	closed chan struct{} // closed when the server takes no more streams
	ended  chan struct{} // closed when the connection has ended

	mu      sync.Mutex // protects writes and the fields below
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	open    map[uint32]bool
}

// dial connects as a user. window is the flow-control window of each stream. streams is the maximum
// number of open streams; 0 means as many as the server allows. The connection ends with ctx.
func (t *target) dial(ctx context.Context, user string, window uint32, streams int) (*stream, error) {
	config, err := t.tls(user)
	if err != nil {
		return nil, err
	}
	config.NextProtos = []string{"h2"}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	s := &stream{t: t, tls: conn.(*tls.Conn), framer: http2.NewFramer(conn, conn), closed: make(chan struct{}), ended: make(chan struct{}), next: 1, open: map[uint32]bool{}}
	s.encoder = hpack.NewEncoder(&s.block)
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	context.AfterFunc(ctx, func() { conn.Close() })
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	if err := s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		return nil, err
	}
	frame, err := s.framer.ReadFrame()
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if settings, ok := frame.(*http2.SettingsFrame); ok {
		if allowed, ok := settings.Value(http2.SettingMaxConcurrentStreams); ok {
			streams = min(streams, int(allowed))
		}
	}
	if err := s.framer.WriteSettingsAck(); err != nil {
		return nil, err
	}
	s.places = make(chan struct{}, streams)
	for range streams {
		s.places <- struct{}{}
	}
	go s.read()
	return s, nil
}

// read counts how streams end, until the connection ends.
func (s *stream) read() {
	defer close(s.ended)
	for {
		frame, err := s.framer.ReadFrame()
		if err != nil {
			if streamErr, ok := err.(http2.StreamError); ok {
				s.end(streamErr.StreamID)
				continue
			}
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			s.t.note(f.PseudoValue("status"))
			if f.StreamEnded() {
				s.end(f.StreamID)
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				s.end(f.StreamID)
			}
		case *http2.RSTStreamFrame:
			s.t.note("reset")
			s.end(f.StreamID)
		case *http2.PingFrame:
			if !f.IsAck() {
				s.mu.Lock()
				_ = s.framer.WritePing(true, f.Data)
				s.mu.Unlock()
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				s.mu.Lock()
				_ = s.framer.WriteSettingsAck()
				s.mu.Unlock()
			}
		case *http2.GoAwayFrame:
			// Open streams stay open. Anonymous connections get this with their first response.
			select {
			case <-s.closed:
			default:
				close(s.closed)
			}
		}
	}
}

func (s *stream) end(id uint32) {
	s.mu.Lock()
	known := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if known {
		s.places <- struct{}{}
	}
}

// request opens a stream, once there is a place, with pseudo-headers and headers in pairs. If a
// body is announced, it never follows.
func (s *stream) request(ctx context.Context, method, path string, body bool, headers ...string) error {
	select {
	case <-s.places:
	case <-s.closed:
		return net.ErrClosed
	case <-s.ended:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-s.closed: // there may still be places
		return net.ErrClosed
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block.Reset()
	fields := append([]string{":method", method, ":scheme", "https", ":authority", s.t.addr, ":path", path}, headers...)
	for i := 0; i+1 < len(fields); i += 2 {
		// A sensitive field is not indexed, so that every request costs as much as the first.
		if err := s.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: len(fields[i+1]) > 100}); err != nil {
			return err
		}
	}
	id, block := s.next, s.block.Bytes()
	s.next += 2
	s.open[id] = true
	first := block[:min(len(block), 16<<10)]
	err := s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: !body, EndHeaders: len(first) == len(block)})
	for rest := block[len(first):]; err == nil && len(rest) > 0; {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		err = s.framer.WriteContinuation(id, len(rest) == 0, part)
	}
	if err == nil {
		s.t.note("requests")
	}
	return err
}

// trickle lets each open stream send a few more bytes every second, until ctx ends.
func (s *stream) trickle(ctx context.Context, bytes uint32) {
	for ctx.Err() == nil {
		sleep(ctx, time.Second)
		s.mu.Lock()
		for id := range s.open {
			_ = s.framer.WriteWindowUpdate(id, bytes)
			_ = s.framer.WriteWindowUpdate(0, bytes)
		}
		s.mu.Unlock()
	}
}

// connections runs do on n connections of a user at a time. It replaces connections that end, until
// it has opened limit connections or ctx ends.
func (t *target) connections(ctx context.Context, user string, n, limit int, window uint32, streams int, do func(*stream)) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := 0; i < limit/n && ctx.Err() == nil; i++ {
				s, err := t.dial(ctx, user, window, streams)
				if err != nil {
					t.note("no connection")
					sleep(ctx, 100*time.Millisecond)
					continue
				}
				do(s)
				s.tls.Close()
			}
		})
	}
	wg.Wait()
}
