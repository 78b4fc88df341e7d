package builtin

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

const base64Protocol = "base64.binary.k8s.io"

// logProtocols are the subprotocols of a log. Without one, messages are binary.
var logProtocols = []string{"", "binary.k8s.io", base64Protocol}

// streamMessages sends a log as messages of a WebSocket, after an empty message, as kube-apiserver
// does. It ends when the log or the client ends.
func streamMessages(w http.ResponseWriter, req *http.Request, log io.ReadCloser) {
	defer log.Close()
	websocket.Server{
		Handshake: func(config *websocket.Config, _ *http.Request) error {
			asked := config.Protocol
			if len(asked) == 0 {
				asked = []string{""}
			}
			at := slices.IndexFunc(asked, func(p string) bool { return slices.Contains(logProtocols, p) })
			if at < 0 {
				return fmt.Errorf("requested protocols are not supported: %v; supports %v", config.Protocol,
					logProtocols)
			}
			config.Protocol = asked[at : at+1]
			return nil
		},
		Handler: func(conn *websocket.Conn) {
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				wsstream.IgnoreReceives(conn, 0)
				log.Close() // ends a read that waits for the container
			}()
			defer func() { conn.Close(); <-gone }()
			encoded := slices.Contains(conn.Config().Protocol, base64Protocol)
			send := func(b []byte) error {
				if encoded {
					return websocket.Message.Send(conn, base64.StdEncoding.EncodeToString(b))
				}
				return websocket.Message.Send(conn, b)
			}
			if send(nil) != nil {
				return
			}
			buf := make([]byte, 32<<10)
			for {
				n, err := log.Read(buf)
				if n > 0 && send(buf[:n]) != nil || err != nil {
					return
				}
			}
		},
	}.ServeHTTP(w, req)
}
