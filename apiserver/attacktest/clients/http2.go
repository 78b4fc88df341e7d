// Package clients has HTTP/2 clients that misbehave, to test a server's defenses. They send streams
// frame by frame, so that they can omit what ordinary clients must send: bodies, and flow-control
// windows for responses.
//
//	c, err := clients.Dial(address, tlsConfig, clients.NoWindow)
//	stream, err := c.Request("GET", "/healthz", true)
//	code, err := c.Status(ctx, stream)
package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// NoWindow tells a server to send no data on any stream: the headers of responses arrive, their
// bodies never do.
var NoWindow = http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}

// Conn is an HTTP/2 connection. It reads all frames in the background, acknowledges settings, and
// never extends a window. It is safe for concurrent use.
type Conn struct {
	conn net.Conn

	mu      sync.Mutex
	framer  *http2.Framer // only for writing
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	streams map[uint32]*stream
	err     error         // why the connection has ended
	done    chan struct{} // closed when the connection has ended
}

// stream is what the server has sent on a stream.
type stream struct {
	status   int
	received int           // bytes of the response's body
	answered chan struct{} // closed when the status has arrived
	ended    chan struct{} // closed when the server has ended the stream
	reset    bool          // the stream ended before the end of the response
}

// Dial opens a TLS connection and sends the settings. It replaces NextProtos of the configuration.
func Dial(address string, config *tls.Config, settings ...http2.Setting) (*Conn, error) {
	config = config.Clone()
	config.NextProtos = []string{http2.NextProtoTLS}
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	c := &Conn{conn: conn, next: 1, streams: map[uint32]*stream{}, done: make(chan struct{})}
	c.framer = http2.NewFramer(conn, conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		conn.Close()
		return nil, fmt.Errorf("begin HTTP/2: %w", err)
	}
	if err := c.framer.WriteSettings(settings...); err != nil {
		conn.Close()
		return nil, fmt.Errorf("begin HTTP/2: %w", err)
	}
	go c.read()
	return c, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Request opens a stream with a request's header, which consists of names (in lower case) and
// values in turns. If end is false, it announces a body, which Data may send. Request returns the
// stream's number.
func (c *Conn) Request(method, path string, end bool, header ...string) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.block.Reset()
	fields := append([]string{":method", method, ":scheme", "https", ":authority", "attack", ":path", path}, header...)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return 0, err
		}
	}
	id := c.next
	c.next += 2
	c.streams[id] = &stream{answered: make(chan struct{}), ended: make(chan struct{})}
	const frame = 16 << 10
	rest := c.block.Bytes()
	first := rest[:min(len(rest), frame)]
	rest = rest[len(first):]
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		now := rest[:min(len(rest), frame)]
		rest = rest[len(now):]
		err = c.framer.WriteContinuation(id, len(rest) == 0, now)
	}
	return id, err
}

// Data sends a part of a body; end marks the last one. It ignores the server's window.
func (c *Conn) Data(id uint32, data []byte, end bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return c.framer.WriteData(id, end, data)
}

// Status waits for the status code of a response. It returns 0 if the stream or the connection
// ended without one.
func (c *Conn) Status(ctx context.Context, id uint32) (int, error) {
	s := c.stream(id)
	select {
	case <-s.answered:
	case <-s.ended:
	case <-c.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.status, nil
}

// Ended waits until the server has ended a stream, and reports whether that was before the end of
// the response.
func (c *Conn) Ended(ctx context.Context, id uint32) (early bool, err error) {
	s := c.stream(id)
	select {
	case <-s.ended:
	case <-c.done:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.reset, nil
}

// Received returns how many bytes of a response's body have arrived.
func (c *Conn) Received(id uint32) int {
	s := c.stream(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.received
}

func (c *Conn) stream(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// read reads frames until the connection ends.
func (c *Conn) read() {
	var err error
	for err == nil {
		var frame http2.Frame
		if frame, err = c.framer.ReadFrame(); err == nil {
			err = c.take(frame)
		}
		var of http2.StreamError
		if errors.As(err, &of) {
			err = nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.done)
}

func (c *Conn) take(frame http2.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[frame.Header().StreamID]
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.framer.WritePing(true, f.Data)
		}
	case *http2.MetaHeadersFrame:
		if s != nil && s.status == 0 {
			s.status, _ = strconv.Atoi(f.PseudoValue("status"))
			close(s.answered)
		}
		c.end(s, f.StreamEnded(), false)
	case *http2.DataFrame:
		if s != nil {
			s.received += len(f.Data())
		}
		c.end(s, f.StreamEnded(), false)
	case *http2.RSTStreamFrame:
		c.end(s, true, f.ErrCode != http2.ErrCodeNo)
	}
	return nil
}

// end ends a stream. The caller holds the lock.
func (c *Conn) end(s *stream, ended, reset bool) {
	if s == nil || !ended {
		return
	}
	select {
	case <-s.ended:
	default:
		s.reset = reset
		close(s.ended)
	}
}
