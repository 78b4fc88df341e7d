package inside

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// AllowVariable is the environment variable with the hosts outside of the cluster to which the
// operator may connect, and the programs that it may start, separated by commas; * allows all.
// Virtual time stands still while it waits for them.
const AllowVariable = "KELSON_AGENT_ALLOW"

// direct makes the connections that dial and question have checked.
var direct = &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: permit}

// isolate makes connections to other hosts fail, and reports them.
func isolate() {
	guard()
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		// client-go uses this transport for servers without TLS.
		t.RegisterProtocol("http", defaultTransport{})
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return dial(ctx, network, address)
		}
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return &question{dial: func() (net.Conn, error) { return direct.DialContext(ctx, network, address) }}, nil
		}}
}

// dial connects to a listener of this process, or to a host that is allowed.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(host, Host) {
		return proxy(), nil
	}
	if isHere(host) {
		return dialHere(port)
	}
	if isService(address) {
		return serviceConn(address), nil
	}
	if !allowed(host) {
		return nil, external(address)
	}
	report(Allowed, address)
	return direct.DialContext(ctx, network, address)
}

// defaultTransport sends the requests of http.DefaultTransport to the kelson process if they are
// for the control plane.
type defaultTransport struct{}

// RoundTrip implements http.RoundTripper.
func (defaultTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isControlPlane(r.URL) {
		return nil, http.ErrSkipAltProtocol
	}
	return Transport.RoundTrip(r)
}

// proxy returns a connection to the control plane, for clients with transports of their own.
func proxy() net.Conn {
	near, far := net.Pipe()
	l := &listener{address: &net.TCPAddr{}, arrived: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.arrived <- far
	handler := &httputil.ReverseProxy{Transport: Transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Director:     func(r *http.Request) { r.URL.Scheme, r.URL.Host = "http", Host },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l) }()
	return near
}

func allowed(host string) bool {
	for _, name := range strings.Split(os.Getenv(AllowVariable), ",") {
		if name == "*" || name != "" && strings.EqualFold(name, host) {
			return true
		}
	}
	return false
}

// report reports an address outside of the cluster, or a program, with Refused or Allowed.
func report(id uint32, what string) {
	agent.enqueueNow(Frame{Kind: External, ID: id, Content: []byte(what)})
}

// external reports an address, and returns the error of a connection to it.
func external(address string) error {
	report(Refused, address)
	return fmt.Errorf("connect to %s: %w: the operator runs in virtual time, without a network; see --allow", address,
		syscall.EHOSTUNREACH)
}

// question is a connection to a name server. It reports the name that is looked up, and fails
// unless that is allowed.
type question struct {
	net.Conn // nil until the name is allowed
	dial     func() (net.Conn, error)
	until    time.Time
}

var errNotFound = errors.New("the operator runs in virtual time, without a network; see --allow")

// Write implements net.Conn.
func (q *question) Write(p []byte) (int, error) {
	if q.Conn == nil {
		name := nameIn(p)
		if !allowed(name) {
			report(Refused, name)
			return 0, errNotFound
		}
		conn, err := q.dial()
		if err != nil {
			return 0, err
		}
		q.Conn = conn
		if err := conn.SetDeadline(q.until); err != nil {
			return 0, err
		}
	}
	return q.Conn.Write(p)
}

// Read implements net.Conn.
func (q *question) Read(p []byte) (int, error) {
	if q.Conn == nil {
		return 0, errNotFound
	}
	return q.Conn.Read(p)
}

// SetDeadline implements net.Conn. The deadline of a lookup is in the virtual time of the operator,
// so it counts from now.
func (q *question) SetDeadline(t time.Time) error {
	q.until = t
	return nil
}

// Close implements net.Conn.
func (q *question) Close() error {
	if q.Conn == nil {
		return nil
	}
	return q.Conn.Close()
}

// nameIn returns the name in a DNS message that follows its length, as over TCP: a conn that is
// not a net.PacketConn.
func nameIn(message []byte) string {
	const header = 2 + 12
	var labels []string
	for at := header; at < len(message); {
		n := int(message[at])
		if n == 0 || at+1+n > len(message) {
			break
		}
		labels = append(labels, string(message[at+1:at+1+n]))
		at += 1 + n
	}
	return strings.Join(labels, ".")
}

// listener is a listener of the operator. Connections come from the control plane and from this
// process; other processes can't connect.
type listener struct {
	address *net.TCPAddr
	arrived chan net.Conn
	closed  chan struct{}
}

// Listen replaces net.Listen in the operator.
func Listen(network, address string) (net.Listener, error) {
	if !strings.HasPrefix(network, "tcp") {
		return net.Listen(network, address)
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
	c := agent
	c.mu.Lock()
	defer c.mu.Unlock()
	if port == 0 {
		const first = 32768
		if c.port == 0 {
			c.port = first
		}
		c.port++
		port = c.port
	}
	if c.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: &net.TCPAddr{Port: port},
			Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{address: &net.TCPAddr{IP: net.ParseIP(host), Port: port}, arrived: make(chan net.Conn, 64),
		closed: make(chan struct{})}
	c.listeners[port] = l
	return l, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.arrived:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	agent.mu.Lock()
	defer agent.mu.Unlock()
	if agent.listeners[l.address.Port] == l {
		delete(agent.listeners, l.address.Port)
		close(l.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.address }

// offer passes a connection to the listener of a port, and reports whether there is one.
func (c *connection) offer(port int, conn net.Conn) bool {
	c.mu.Lock()
	l := c.listeners[port]
	c.mu.Unlock()
	if l == nil {
		return false
	}
	select {
	case l.arrived <- conn:
		return true
	default:
		return false // too many connections wait
	}
}

// isHere reports whether a host is the machine of the operator.
func isHere(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || host == "" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// dialHere connects to a listener of this process.
func dialHere(port string) (net.Conn, error) {
	n, err := strconv.Atoi(port)
	near, far := net.Pipe()
	if err != nil || !agent.offer(n, far) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n},
			Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return near, nil
}

// accept opens a connection of the control plane to a port.
func (c *connection) accept(id uint32, port int) {
	near, far := net.Pipe()
	if !c.offer(port, far) {
		c.enqueueNow(Frame{End, id, []byte("connection refused")})
		return
	}
	c.mu.Lock()
	incoming := c.newStream(id)
	c.mu.Unlock()
	go func() {
		_, _ = io.Copy(near, incoming) // ends with the other direction
		near.Close()
	}()
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := near.Read(buffer)
			if n > 0 {
				c.enqueueNow(Frame{Data, id, append([]byte(nil), buffer[:n]...)})
			}
			if err != nil {
				break
			}
		}
		c.enqueueNow(Frame{Kind: End, ID: id})
		incoming.end(io.EOF)
		near.Close()
	}()
}

// ListenTLS replaces tls.Listen in the operator.
func ListenTLS(network, address string, config *tls.Config) (net.Listener, error) {
	if config == nil || len(config.Certificates) == 0 && config.GetCertificate == nil &&
		config.GetConfigForClient == nil {
		return nil, errors.New("tls: neither Certificates, GetCertificate, nor GetConfigForClient set in Config")
	}
	l, err := Listen(network, address)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(l, config), nil
}

// ListenWith replaces the method Listen of net.ListenConfig in the operator. Other types have such
// a method, too.
func ListenWith(x interface{}, ctx context.Context, network, address string) (net.Listener, error) {
	switch l := x.(type) {
	case net.ListenConfig, *net.ListenConfig:
		return Listen(network, address)
	case interface {
		Listen(ctx context.Context, network, address string) (net.Listener, error)
	}:
		return l.Listen(ctx, network, address)
	}
	return nil, fmt.Errorf("listen at %s: %T does not listen", address, x)
}

// ListenAndServe replaces http.ListenAndServe in the operator.
func ListenAndServe(address string, handler http.Handler) error {
	return ServerListenAndServe(&http.Server{Addr: address, Handler: handler})
}

// ListenAndServeTLS replaces http.ListenAndServeTLS in the operator.
func ListenAndServeTLS(address, cert, key string, handler http.Handler) error {
	return ServerListenAndServeTLS(&http.Server{Addr: address, Handler: handler}, cert, key)
}

// ServerListenAndServe replaces the method ListenAndServe in the operator.
func ServerListenAndServe(server interface{ ListenAndServe() error }) error {
	s, ok := server.(*http.Server)
	if !ok {
		return server.ListenAndServe()
	}
	l, err := Listen("tcp", orDefault(s.Addr, ":http"))
	if err != nil {
		return err
	}
	defer l.Close()
	return s.Serve(l)
}

// ServerListenAndServeTLS replaces the method ListenAndServeTLS in the operator.
func ServerListenAndServeTLS(server interface {
	ListenAndServeTLS(cert, key string) error
}, cert, key string) error {
	s, ok := server.(*http.Server)
	if !ok {
		return server.ListenAndServeTLS(cert, key)
	}
	l, err := Listen("tcp", orDefault(s.Addr, ":https"))
	if err != nil {
		return err
	}
	defer l.Close()
	return s.ServeTLS(l, cert, key)
}

func orDefault(text, standard string) string {
	if text == "" {
		return standard
	}
	return text
}
