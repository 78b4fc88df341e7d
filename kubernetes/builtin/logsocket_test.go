package builtin

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A log over a WebSocket begins with an empty message, as in kube-apiserver, and ends when the log
// or the client ends.
func TestLogOverWebSocket(t *testing.T) {
	var source io.ReadCloser
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		stream(w, req, source)
	}))
	defer server.Close()
	dial := func(protocols ...string) (*websocket.Conn, error) {
		config, err := websocket.NewConfig("ws"+strings.TrimPrefix(server.URL, "http"), "http://localhost")
		require.NoError(t, err)
		config.Protocol = protocols
		return websocket.DialConfig(config)
	}
	receive := func(conn *websocket.Conn) string {
		t.Helper()
		var message []byte
		require.NoError(t, websocket.Message.Receive(conn, &message))
		return string(message)
	}
	const line = "the container is alive\n"
	for _, c := range []struct {
		protocols []string
		want      string
	}{
		{nil, line},
		{[]string{"binary.k8s.io"}, line},
		{[]string{"unknown", "base64.binary.k8s.io"}, base64.StdEncoding.EncodeToString([]byte(line))},
	} {
		source = io.NopCloser(strings.NewReader(line))
		conn, err := dial(c.protocols...)
		if err != nil {
			t.Errorf("%v: %v", c.protocols, err)
			continue
		}
		if first, second := receive(conn), receive(conn); first != "" || second != c.want {
			t.Errorf("%v: %q and %q, want an empty message and %q", c.protocols, first, second, c.want)
		}
		err = websocket.Message.Receive(conn, new([]byte))
		assert.ErrorIsf(t, err, io.EOF, "%v: after the log", c.protocols)
		conn.Close()
	}
	if conn, err := dial("unknown"); err == nil {
		conn.Close()
		t.Error("an unknown subprotocol is accepted")
	}

	// Closing the connection ends a log that the client follows.
	reader, writer := io.Pipe()
	source = reader
	conn, err := dial()
	require.NoError(t, err)
	receive(conn)
	conn.Close()
	for err == nil {
		_, err = writer.Write([]byte(line))
	}
	assert.ErrorIsf(t, err, io.ErrClosedPipe, "after the client left")
}
