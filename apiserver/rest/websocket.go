package rest

import (
	"context"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/serving/hijack"
)

// closeGrace limits how long the end of a watch waits for its client to read.
const closeGrace = time.Second

// overWebSocket serves a watch as messages: text for JSON, otherwise binary. As in kube-apiserver,
// a client must send an Origin and may ask for one subprotocol; its messages are ignored.
func (w *watcher) overWebSocket(f wire.Format, serve func()) {
	websocket.Handler(func(conn *websocket.Conn) {
		ctx, cancel := context.WithCancel(w.s.in.req.Context())
		w.done = ctx.Done()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			defer cancel()
			wsstream.IgnoreReceives(conn, 0)
		}()
		// A client that does not read must not delay the end.
		context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now().Add(closeGrace)) })
		defer func() {
			cancel()
			_ = conn.SetDeadline(time.Now().Add(closeGrace))
			conn.Close()
			<-gone
		}()
		switch f.Bare() {
		case resource.MediaJSON:
			w.message = func(frame []byte) error { return websocket.Message.Send(conn, string(frame)) }
		case resource.MediaProtobuf:
			w.message = func(frame []byte) error { return websocket.Message.Send(conn, frame[wire.EventPrefix:]) }
		default:
			w.message = func(frame []byte) error { return websocket.Message.Send(conn, frame) }
		}
		send := w.message
		w.message = func(frame []byte) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
				return err
			}
			return send(frame)
		}
		serve()
	}).ServeHTTP(hijack.Writer(w.s.out.w), w.s.in.req)
}
