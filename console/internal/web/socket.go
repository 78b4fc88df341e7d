package web

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

// streaming is the protocol of WebSockets that carry server-sent events.
const streaming = "kelson-stream"

// Sockets also serves the streams of h over WebSockets. Browsers open only six connections to a
// host with HTTP/1.1, for all windows together: the streams of a few windows would leave none for
// other requests. WebSockets do not count.
//
// Each message has one or more events. If h responds with an error instead of a stream, the only
// event is named refused, and its data is the body of the response.
func Sockets(h http.Handler) http.Handler {
	// the guard has checked the origin
	upgrader := websocket.Upgrader{Subprotocols: []string{streaming}, CheckOrigin: func(*http.Request) bool {
		return true
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(websocket.Subprotocols(r), streaming) {
			h.ServeHTTP(w, r)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has responded
		}
		defer conn.Close()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		conn.SetReadLimit(1) // the page sends nothing
		go func() {
			defer cancel() // the page has closed the connection
			_, _, _ = conn.ReadMessage()
		}()
		s := &socket{conn: conn, header: http.Header{}, code: http.StatusOK}
		h.ServeHTTP(s, r.WithContext(ctx))
		if s.code != http.StatusOK {
			body := bytes.TrimSpace(s.pending.Bytes())
			s.pending = *bytes.NewBuffer(slices.Concat([]byte("event: refused\ndata: "), body, []byte("\n\n")))
		}
		if s.FlushError() == nil {
			_ = conn.WriteControl(websocket.CloseMessage,
				websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(sendWithin))
		}
	})
}

// socket is a response whose body is sent as messages, one for each Flush.
type socket struct {
	conn    *websocket.Conn
	header  http.Header
	code    int
	pending bytes.Buffer
}

func (s *socket) Header() http.Header { return s.header }

func (s *socket) WriteHeader(code int) { s.code = code }

func (s *socket) Write(data []byte) (int, error) { return s.pending.Write(data) }

func (s *socket) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }

func (s *socket) FlushError() error {
	if s.pending.Len() == 0 {
		return nil
	}
	defer s.pending.Reset()
	return s.conn.WriteMessage(websocket.TextMessage, s.pending.Bytes())
}
