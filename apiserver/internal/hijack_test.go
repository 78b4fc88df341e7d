package internal_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"kelson.dev/apiserver/serving/hijack"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// dial connects to a server that hijacks its connections and passes them to serve.
func dial(t *testing.T, serve func(net.Conn)) *tls.Conn {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(hijack.Writer(w)).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		serve(conn)
	}))
	t.Cleanup(server.Close)
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
	require.NoError(t, err)
	return conn
}

// The client gets all data although the server has closed the connection without reading the
// client's.
func TestUnreadInput(t *testing.T) {
	output := bytes.Repeat([]byte("output\n"), 10_000)
	closed := make(chan struct{})
	conn := dial(t, func(conn net.Conn) {
		_, err := conn.Read(make([]byte, 1))
		assert.NoError(t, err)
		_, err = conn.Write(output)
		assert.NoError(t, err)
		conn.Close()
		close(closed)
	})
	_, err := conn.Write(bytes.Repeat([]byte("input\n"), 10_000))
	require.NoError(t, err)
	<-closed
	_, err = conn.Write([]byte("more input\n"))
	assert.NoError(t, err)
	got, err := io.ReadAll(conn)
	assert.NoError(t, err)
	if !bytes.Equal(got, output) {
		t.Errorf("got %d of %d bytes", len(got), len(output))
	}
}

// Close ends a Read, later calls fail, and a client that closes ends the connection at once.
func TestClose(t *testing.T) {
	ended := make(chan struct{})
	conn := dial(t, func(conn net.Conn) {
		reads := make(chan error)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			reads <- err
		}()
		time.Sleep(10 * time.Millisecond) // usually, Read waits by now
		assert.NoError(t, conn.Close())
		assert.ErrorIsf(t, <-reads, net.ErrClosed, "the read failed")
		_, err := conn.Write([]byte("late"))
		assert.ErrorIsf(t, err, net.ErrClosed, "the write failed")
		assert.ErrorIsf(t, conn.Close(), net.ErrClosed, "the second Close failed")
		go func() {
			// It fails as soon as the connection is closed.
			for conn.SetWriteDeadline(time.Time{}) == nil {
				time.Sleep(time.Millisecond)
			}
			close(ended)
		}()
	})
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the client got %v", err)
	}
	conn.Close()
	select {
	case <-ended:
	case <-time.After(4 * time.Second):
		t.Error("the connection is still open")
	}
}

// A connection that can't close in one direction is unchanged.
func TestPipe(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	assert.Equal(t, hijack.Linger(near), near)
	near.Close()
}
