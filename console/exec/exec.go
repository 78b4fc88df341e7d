// Package exec serves the view Exec: a terminal in a container.
package exec

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
)

// Server serves the requests of the view.
type Server struct {
	Cluster *cluster.Cluster
	// Write permits commands, which can change anything in a container.
	Write bool
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) { mux.HandleFunc("GET /api/exec", s.exec) }

// Messages of the WebSocket: binary messages are input and output of the terminal. Text messages
// are one of these types in JSON: the page sends sizes, and the server sends one end before it
// closes the connection.
type (
	size struct {
		Columns uint16 `json:"columns"`
		Rows    uint16 `json:"rows"`
	}
	end struct {
		Code  int        `json:"code"` // of the command
		Error *web.Error `json:"error,omitempty"`
	}
)

// maxMessage bounds the messages of the page in bytes, and sendWithin the time to send one.
const (
	maxMessage = 1 << 20
	sendWithin = 30 * time.Second
)

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case !s.Write:
		web.Fail(w, web.Errorf(http.StatusForbidden,
			"the console is read-only; start it with --write to permit commands in containers"))
		return
	case r.Header.Get("Origin") == "":
		// Browsers send Origin with every WebSocket request; guard has checked that it is the
		// console's own.
		web.Fail(w, web.Errorf(http.StatusForbidden, "requests without Origin are refused"))
		return
	case len(q["command"]) == 0:
		web.Fail(w, web.Errorf(http.StatusBadRequest, "command: required"))
		return
	}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has responded
	}
	defer conn.Close()
	conn.SetReadLimit(maxMessage)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	t := &terminal{conn: conn, sizes: make(chan remotecommand.TerminalSize, 1), done: ctx.Done()}
	input, typed := io.Pipe()
	go func() {
		defer cancel() // the page has closed the connection
		defer typed.Close()
		t.read(typed)
	}()
	defer typed.Close() // ends the copying of input, and the goroutine that waits for input
	err = s.Cluster.Exec(ctx, q.Get("namespace"), q.Get("name"), q.Get("container"), q["command"],
		remotecommand.StreamOptions{Stdin: input, Stdout: t, Tty: true, TerminalSizeQueue: t})
	t.end(err)
}

// terminal is the page's side of a terminal.
type terminal struct {
	conn    *websocket.Conn
	sending sync.Mutex
	sizes   chan remotecommand.TerminalSize // holds the newest one
	done    <-chan struct{}
}

// read processes the messages of the page until the connection ends.
func (t *terminal) read(typed io.Writer) {
	for {
		kind, message, err := t.conn.ReadMessage()
		if err != nil {
			return
		}
		if kind == websocket.BinaryMessage {
			if _, err := typed.Write(message); err != nil {
				return
			}
			continue
		}
		var s size
		if json.Unmarshal(message, &s) != nil || s.Columns == 0 || s.Rows == 0 {
			continue
		}
		select {
		case <-t.sizes: // obsolete
		default:
		}
		t.sizes <- remotecommand.TerminalSize{Width: s.Columns, Height: s.Rows} // only read sends
	}
}

// Next returns the next size of the terminal. It implements remotecommand.TerminalSizeQueue.
func (t *terminal) Next() *remotecommand.TerminalSize {
	select {
	case s := <-t.sizes:
		return &s
	case <-t.done:
		return nil
	}
}

// Write sends output of the command to the page.
func (t *terminal) Write(output []byte) (int, error) {
	if err := t.send(websocket.BinaryMessage, output); err != nil {
		return 0, err
	}
	return len(output), nil
}

func (t *terminal) send(kind int, data []byte) error {
	t.sending.Lock()
	defer t.sending.Unlock()
	// the write below reports a closed connection
	_ = t.conn.SetWriteDeadline(time.Now().Add(sendWithin))
	return t.conn.WriteMessage(kind, data)
}

// end sends the exit code of the command, or the error, to the page.
func (t *terminal) end(err error) {
	var e end
	var exited exec.ExitError
	switch {
	case errors.As(err, &exited) && exited.Exited():
		e.Code = exited.ExitStatus()
	case err != nil:
		e.Error = web.AsError(err)
	}
	data, err := json.Marshal(e)
	if err == nil {
		_ = t.send(websocket.TextMessage, data) // an error means that the page has disconnected
		_ = t.send(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	}
}
