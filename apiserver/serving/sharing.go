package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Sharing selects which addresses a listener shares with other sockets.
type Sharing struct {
	Port    bool // SO_REUSEPORT: several listeners on one address and port
	Address bool // SO_REUSEADDR
}

// ListenSharing is [Listen] with options of the socket.
func ListenSharing(address string, share Sharing) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		if failed := conn.Control(func(fd uintptr) { err = share.set(fd) }); failed != nil {
			return failed
		}
		return err
	}}
	if share == (Sharing{}) {
		config.Control = nil
	}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w", address, ErrPortInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}
