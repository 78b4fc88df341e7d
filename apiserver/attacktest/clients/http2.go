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
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// NoWindow allows a server to send no data on any stream: responses consist of their headers.
var NoWindow = http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}

// Conn is an HTTP/2 connection. It reads all frames in the background and acknowledges settings. It
// opens no window unless Window is called. It is safe for concurrent use.
type Conn struct {
	conn  net.Conn
	frame func(http2.Frame) // Options.Frame
	// authority is the value of :authority.
	authority string

	mu      sync.Mutex
	framer  *http2.Framer // only for writing
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	streams map[uint32]*stream
	err     error         // why the connection has ended
	done    chan struct{} // closed when the connection has ended
}

// stream holds the data that the server has sent on one stream.
type stream struct {
	status   int
	received int           // bytes of the response's body
	answered chan struct{} // closed when there is a status
	ended    chan struct{} // closed when the server has ended the stream
	reset    bool          // it ended before the response did
}

// Options are the options of DialContext. The zero value is valid.
type Options struct {
	// Settings are announced to the server.
	Settings []http2.Setting
	// Frame, if not nil, is called for each frame from the server, in order, after the connection
	// has handled it. It must not retain the frame.
	Frame func(http2.Frame)
}

// Dial opens a connection with TLS and announces the settings. NextProtos of the configuration is
// replaced.
func Dial(address string, config *tls.Config, settings ...http2.Setting) (*Conn, error) {
	return DialContext(context.Background(), address, config, Options{Settings: settings})
}

// DialContext opens a connection that ends with ctx.
func DialContext(ctx context.Context, address string, config *tls.Config, options Options) (*Conn, error) {
	config = config.Clone()
	config.NextProtos = []string{http2.NextProtoTLS}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	c := &Conn{
		conn: conn, frame: options.Frame, authority: address,
		next: 1, streams: map[uint32]*stream{}, done: make(chan struct{}),
	}
	c.framer = http2.NewFramer(conn, conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		conn.Close()
		return nil, fmt.Errorf("begin HTTP/2: %w", err)
	}
	if err := c.framer.WriteSettings(options.Settings...); err != nil {
		conn.Close()
		return nil, fmt.Errorf("begin HTTP/2: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	go func() {
		defer stop()
		c.read()
	}()
	return c, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Request opens a stream with the header of a request: names in lower case, each followed by its
// value. If end is false, a body must follow, which Data sends. Request returns the stream's
// number.
func (c *Conn) Request(method, path string, end bool, header ...string) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.block.Reset()
	fields := append([]string{":method", method, ":scheme", "https", ":authority", c.authority, ":path", path},
		header...)
	for i := 0; i+1 < len(fields); i += 2 {
		// A long field is not indexed, so that every request costs the server as much as the first.
		field := hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: len(fields[i+1]) > 100}
		if err := c.encoder.WriteField(field); err != nil {
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
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: end,
		EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		part := rest[:min(len(rest), frame)]
		rest = rest[len(part):]
		err = c.framer.WriteContinuation(id, len(rest) == 0, part)
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

// Window allows the server to send n more bytes on a stream.
func (c *Conn) Window(id, n uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if err := c.framer.WriteWindowUpdate(id, n); err != nil {
		return err
	}
	return c.framer.WriteWindowUpdate(0, n)
}

// Status waits for the status code of a response. It is 0 if the stream or the connection ended
// without one.
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
			if c.frame != nil {
				c.frame(frame)
			}
		}
		var streamError http2.StreamError
		if errors.As(err, &streamError) {
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
