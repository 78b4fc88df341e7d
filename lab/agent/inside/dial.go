package inside

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"
)

// DialContext is the DialContext of the operator's transports that have none.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return dial(ctx, network, address)
}

// Connect replaces net.Dial in the operator.
func Connect(network, address string) (net.Conn, error) {
	return DialContext(context.Background(), network, address)
}

// ConnectTimeout replaces net.DialTimeout in the operator.
func ConnectTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return DialContext(ctx, network, address)
}

// ConnectTLS replaces tls.Dial in the operator.
func ConnectTLS(network, address string, config *tls.Config) (*tls.Conn, error) {
	return ConnectTLSWith(&net.Dialer{}, network, address, config)
}

// ConnectTLSWith replaces tls.DialWithDialer in the operator.
func ConnectTLSWith(dialer *net.Dialer, network, address string, config *tls.Config) (*tls.Conn, error) {
	ctx := context.Background()
	if dialer.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
	}
	conn, err := DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = &tls.Config{}
	}
	if config.ServerName == "" {
		config = config.Clone()
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			conn.Close()
			return nil, err
		}
	}
	over := tls.Client(conn, config)
	if err := over.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return over, nil
}

// Dialer opens connections.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialerOf returns what replaces a dialer of the operator.
func DialerOf(Dialer) Dialer { return dialer{} }

type dialer struct{}

// DialContext implements Dialer.
func (dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return DialContext(ctx, network, address)
}
