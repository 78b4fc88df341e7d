// Package hijack closes connections that have switched to another protocol without losing the last
// data that was written to them.
//
// TCP resets a connection that is closed while it has received data that was not read. The peer
// then discards what it has received but not yet read. The last output of a command in a container
// is lost that way if the client still sends input, such as the end of its input.
package hijack

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// drainTimeout limits how long a closed connection waits for its peer to close too.
const drainTimeout = 5 * time.Second

// Writer returns a ResponseWriter like w whose connection, if a handler hijacks it, closes as that
// of [Linger] does.
func Writer(w http.ResponseWriter) http.ResponseWriter { return writer{w} }

type writer struct{ http.ResponseWriter }

// Hijack implements [http.Hijacker].
func (w writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return Linger(conn), buf, nil
}

func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Linger returns a connection like conn whose Close tells the peer that no more data follows, and
// returns. It then discards what the peer still sends, until the peer closes the connection or five
// seconds have passed. A connection that can't close in one direction, such as a pipe in this
// process, closes at once: it loses nothing.
func Linger(conn net.Conn) net.Conn {
	half, ok := conn.(closeWriter)
	if !ok {
		return conn
	}
	return &lingering{Conn: conn, half: half}
}

// closeWriter is implemented by TLS, TCP and Unix connections.
type closeWriter interface{ CloseWrite() error }

type lingering struct {
	net.Conn
	half    closeWriter
	closed  atomic.Bool
	reading sync.Mutex // one Read at a time, and none while the connection drains
}

func (l *lingering) Read(p []byte) (int, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	if l.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := l.Conn.Read(p)
	if err != nil && l.closed.Load() {
		err = net.ErrClosed // the deadline, or the peer, which closes because Close has told it
	}
	return n, err
}

func (l *lingering) Write(p []byte) (int, error) {
	if l.closed.Load() {
		return 0, net.ErrClosed
	}
	return l.Conn.Write(p)
}

func (l *lingering) Close() error {
	if l.closed.Swap(true) {
		return net.ErrClosed
	}
	// End a Read and, if the peer does not read, a Write.
	_ = l.SetReadDeadline(time.Now())
	_ = l.SetWriteDeadline(time.Now().Add(time.Second))
	if err := l.half.CloseWrite(); err != nil {
		return l.Conn.Close()
	}
	go l.drain()
	return nil
}

// drain discards what the peer sends until it closes the connection.
func (l *lingering) drain() {
	defer l.Conn.Close()
	l.reading.Lock()
	defer l.reading.Unlock()
	if err := l.SetReadDeadline(time.Now().Add(drainTimeout)); err == nil {
		_, _ = io.Copy(io.Discard, l.Conn) // also ends at the deadline
	}
}
