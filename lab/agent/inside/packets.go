package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// packetListener is a UDP socket of the operator. No packet ever arrives, because nothing else is
// in its network.
type packetListener struct {
	address *net.UDPAddr

	mu       sync.Mutex
	changed  chan struct{} // closed when deadline or closed changes
	deadline time.Time
	closed   bool
}

// ListenPacket replaces net.ListenPacket in the operator.
func ListenPacket(network, address string) (net.PacketConn, error) {
	if !strings.HasPrefix(network, "udp") {
		return net.ListenPacket(network, address)
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		if port, err = net.LookupPort(network, text); err != nil {
			return nil, &net.OpError{Op: "listen", Net: network, Err: err}
		}
	}
	return &packetListener{address: &net.UDPAddr{IP: net.ParseIP(host), Port: port}, changed: make(chan struct{})}, nil
}

// ListenPacketWith replaces the method ListenPacket of net.ListenConfig in the operator. Other
// types have such a method, too.
func ListenPacketWith(x interface{}, ctx context.Context, network, address string) (net.PacketConn, error) {
	switch l := x.(type) {
	case net.ListenConfig, *net.ListenConfig:
		return ListenPacket(network, address)
	case interface {
		ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
	}:
		return l.ListenPacket(ctx, network, address)
	}
	return nil, fmt.Errorf("listen at %s: %T does not listen", address, x)
}

// ReadFrom implements net.PacketConn. It waits until the socket is closed, or until its deadline.
func (p *packetListener) ReadFrom([]byte) (int, net.Addr, error) {
	failed := func(err error) (int, net.Addr, error) {
		return 0, nil, &net.OpError{Op: "read", Net: "udp", Addr: p.address, Err: err}
	}
	for {
		p.mu.Lock()
		closed, deadline, changed := p.closed, p.deadline, p.changed
		p.mu.Unlock()
		if closed {
			return failed(net.ErrClosed)
		}
		if deadline.IsZero() {
			<-changed
			continue
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
			return failed(os.ErrDeadlineExceeded)
		}
	}
}

// WriteTo implements net.PacketConn.
func (p *packetListener) WriteTo(_ []byte, to net.Addr) (int, error) {
	if to == nil {
		return 0, errors.New("a packet without an address")
	}
	return 0, external(to.String())
}

func (p *packetListener) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close implements net.PacketConn.
func (p *packetListener) Close() error {
	p.change(func() { p.closed = true })
	return nil
}

// LocalAddr implements net.PacketConn.
func (p *packetListener) LocalAddr() net.Addr { return p.address }

// SetDeadline implements net.PacketConn.
func (p *packetListener) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetReadDeadline implements net.PacketConn.
func (p *packetListener) SetReadDeadline(t time.Time) error {
	p.change(func() { p.deadline = t })
	return nil
}

// SetWriteDeadline implements net.PacketConn. Writes do not wait.
func (*packetListener) SetWriteDeadline(time.Time) error { return nil }
