package inprocess

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Network connects dialers and listeners of this process without sockets, so that clients and
// servers of any protocol over TCP, such as webhooks with TLS, work in a testing/synctest bubble.
//
//	var network inprocess.Network
//	listener := network.Listen("")
//	conn, err := network.DialContext(ctx, "tcp", listener.Addr().String())
//
// The zero Network is ready for use. Its methods are safe for concurrent use.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*networkListener
	last      int // the port of the last listener without an address
}

// Services is the address of a listener for all Services: every NAME.NAMESPACE.svc:PORT without a
// separate listener.
const Services = "*.svc"

// Listen returns a listener at a host:port, or at [Services]. Without an address, it chooses a port
// of 127.0.0.1 that no listener of the network has; ports of the machine have no effect on the
// choice. Listen returns an error if the address is in use.
func (n *Network) Listen(at string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at == "" {
		n.last++
		at = net.JoinHostPort("127.0.0.1", strconv.Itoa(n.last))
	}
	if n.listeners[at] != nil {
		return nil, fmt.Errorf("listen at %s in process: %w", at, syscall.EADDRINUSE)
	}
	if n.listeners == nil {
		n.listeners = map[string]*networkListener{}
	}
	l := &networkListener{network: n, address: networkAddress(at), arrived: make(chan net.Conn),
		done: make(chan struct{})}
	n.listeners[at] = l
	return l, nil
}

// Listens reports whether an address has a listener.
func (n *Network) Listens(at string) bool { return n.at(at) != nil }

func (n *Network) at(address string) *networkListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.listeners[address]; l != nil {
		return l
	}
	if host, _, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(host, ".svc") {
		return n.listeners[Services]
	}
	return nil
}

// DialContext connects to a listener, and waits until it accepts. The error for an address without
// a listener is syscall.ECONNREFUSED.
func (n *Network) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	l := n.at(address)
	if l == nil {
		return nil, fmt.Errorf("dial %s in process: %w", address, syscall.ECONNREFUSED)
	}
	near, far := net.Pipe()
	select {
	case l.arrived <- &end{Conn: far, local: l.address}:
		return &end{Conn: near, remote: l.address}, nil
	case <-l.done:
	case <-ctx.Done():
	}
	near.Close()
	far.Close()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("dial %s in process: %w", address, err)
	}
	return nil, fmt.Errorf("dial %s in process: %w", address, syscall.ECONNREFUSED)
}

// networkListener is a listener of a Network.
type networkListener struct {
	network *Network
	address networkAddress
	arrived chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func (l *networkListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrived:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept, and frees the address. Connections stay open.
func (l *networkListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, string(l.address))
	})
	return nil
}

func (l *networkListener) Addr() net.Addr { return l.address }

// end is an end of a connection.
type end struct {
	net.Conn
	local, remote networkAddress // "" if it has none
}

func (e *end) LocalAddr() net.Addr  { return e.local }
func (e *end) RemoteAddr() net.Addr { return e.remote }

// networkAddress is a host:port of a Network.
type networkAddress string

func (networkAddress) Network() string { return "tcp" }

func (a networkAddress) String() string {
	if a == "" {
		return "127.0.0.1:0"
	}
	return string(a)
}
