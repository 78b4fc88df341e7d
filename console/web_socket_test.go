package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"kelson.dev/console/internal/web"
	"kelson.dev/internal/require"
)

// Streams are also served over WebSockets: an event is a message, a refusal is an event, and a
// closed connection ends the stream.
func TestSockets(t *testing.T) {
	ended := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		s := web.NewStream(w)
		if s.Send("state", "one\n\ntwo") != nil || s.Ping() != nil {
			t.Error("not sent")
		}
		<-r.Context().Done()
	})
	mux.Handle("/refused", web.Func(func(*http.Request) (any, error) {
		return nil, web.Errorf(http.StatusForbidden, "no")
	}))
	server := httptest.NewServer(web.Sockets(mux))
	defer server.Close()
	dial := func(path string) *websocket.Conn {
		t.Helper()
		dialer := websocket.Dialer{Subprotocols: []string{"kelson-stream"}}
		conn, _, err := dialer.Dial("ws"+strings.TrimPrefix(server.URL, "http")+path, nil)
		require.NoError(t, err)
		return conn
	}
	expect := func(conn *websocket.Conn, want string) {
		t.Helper()
		if _, got, err := conn.ReadMessage(); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	refused := dial("/refused")
	defer refused.Close()
	expect(refused, "event: refused\ndata: {\"error\":{\"code\":403,\"reason\":\"Forbidden\",\"message\":\"no\"}}\n\n")
	if _, _, err := refused.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("end: %v", err)
	}
	stream := dial("/stream")
	expect(stream, "event: state\ndata: \"one\\n\\ntwo\"\n\n")
	expect(stream, ":\n\n")
	stream.Close()
	<-ended
}
