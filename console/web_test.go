package console_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/console/internal/web"
	"kelson.dev/internal/pipes"
	"kelson.dev/internal/require"
)

// connect serves handler with time limits of a second, and returns a connection on which a GET was
// sent.
func connect(t *testing.T, handler http.HandlerFunc) net.Conn {
	l := pipes.New()
	server := &http.Server{Handler: handler, ReadTimeout: time.Second, WriteTimeout: time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	ours, err := l.Dial(t.Context(), "", "")
	require.NoError(t, err)
	t.Cleanup(func() {
		ours.Close()
		server.Close()
		<-ended
	})
	_, err = io.WriteString(ours, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	return ours
}

// A stream outlives the server's time limits for requests and responses.
func TestStreamOutlivesTimeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, func(w http.ResponseWriter, req *http.Request) {
			s := web.NewStream(w)
			select {
			case <-time.After(time.Hour):
				_ = s.Send("state", "late")
			case <-req.Context().Done():
			}
		})
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "late") {
				return
			}
		}
		t.Errorf("the stream ended without its event: %v", lines.Err())
	})
}

// The server ends a stream whose client does not read.
func TestUnreadStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		began := time.Now()
		connect(t, func(w http.ResponseWriter, _ *http.Request) {
			s := web.NewStream(w)
			var err error
			for err == nil {
				err = s.Send("state", strings.Repeat("x", 1<<20))
			}
			ended <- err
		})
		<-ended
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the stream ended after %s", took)
		}
	})
}
