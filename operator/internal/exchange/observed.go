package exchange

import (
	"context"
	"net"
)

// Dial makes a connection, as that of an http.Transport.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

type socketKey struct{}

// Observed is dial for the innermost place of a Config.Base whose DialContext may wrap what dial returns, as client-go's rotation of certificates does:
// the Transport sees the connection beneath, and can ask the system whether its other end has closed it.
func Observed(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if socket, ok := ctx.Value(socketKey{}).(*net.Conn); ok && err == nil {
			*socket = conn
		}
		return conn, err
	}
}

// dialObserved dials, and returns beside the connection the one that Observed saw beneath it; itself, if that saw none.
func dialObserved(ctx context.Context, dial Dial, address string) (conn, socket net.Conn, err error) {
	conn, err = dial(context.WithValue(ctx, socketKey{}, &socket), "tcp", address)
	if socket == nil {
		socket = conn
	}
	return conn, socket, err
}
