package backend

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// FreeAddress returns an address on which no process listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Accepts waits until a process accepts TLS connections at an address. It returns false if the
// process ends first.
func Accepts(ctx context.Context, address string, ended <-chan struct{}) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	// only checks that the port accepts connections
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return true, conn.Close()
		}
		select {
		case <-ended:
			return false, nil
		case <-ctx.Done():
			return false, err
		case <-time.After(50 * time.Millisecond): // a port of another process can only be polled
		}
	}
}
