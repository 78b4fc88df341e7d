package http1

import (
	"context"
	"net"
)

// Dial dials a connection, like that of an http.Transport.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

type socketKey struct{}

// Observed wraps the innermost dialer of a Config.Base whose DialContext may wrap connections, as
// client-go's certificate rotation does. The Transport then sees the inner connection, and can ask
// the system whether the peer has closed it.
func Observed(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if socket, ok := ctx.Value(socketKey{}).(*net.Conn); ok && err == nil {
			*socket = conn
		}
		return conn, err
	}
}

// dialObserved dials, and also returns the connection that Observed saw; if it saw none, the dialed
// connection itself.
func dialObserved(ctx context.Context, dial Dial, address string) (conn, socket net.Conn, err error) {
	conn, err = dial(context.WithValue(ctx, socketKey{}, &socket), "tcp", address)
	if socket == nil {
		socket = conn
	}
	return conn, socket, err
}
