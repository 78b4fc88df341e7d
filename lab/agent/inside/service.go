package inside

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
)

// ServicesVariable is the environment variable with the addresses outside of the cluster whose
// requests the kelson process answers, as HOST:PORT, separated by commas. A HOST may begin with
// "*", which stands for one label of a name. CertificateVariable has the files of the certificate
// and of the key with which these addresses serve TLS, separated by a comma.
const (
	ServicesVariable    = "KELSON_AGENT_SERVICES"
	CertificateVariable = "KELSON_AGENT_CERTIFICATE"
)

// isService reports whether the kelson process answers the requests to an address.
func isService(address string) bool {
	for _, pattern := range strings.Split(os.Getenv(ServicesVariable), ",") {
		if MatchAddress(pattern, address) {
			return true
		}
	}
	return false
}

// MatchAddress reports whether HOST:PORT matches a pattern of ServicesVariable.
func MatchAddress(pattern, address string) bool {
	pattern, address = strings.ToLower(pattern), strings.ToLower(address)
	if !strings.HasPrefix(pattern, "*.") {
		return pattern != "" && pattern == address
	}
	label := strings.TrimSuffix(address, pattern[1:])
	return label != address && label != "" && !strings.Contains(label, ".")
}

// serviceConn returns a connection to a service. HTTP/1, and HTTP/2 for gRPC, over TLS or without
// it are served in this process: only whole requests and responses are exchanged with the kelson
// process.
func serviceConn(address string) net.Conn {
	near, far := net.Pipe()
	go serveService(address, far)
	return near
}

// serveService serves a connection until it ends.
func serveService(address string, conn net.Conn) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		conn.Close()
		return
	}
	conn = &peeked{Conn: conn, before: first}
	scheme := "http"
	const handshake = 22 // the type of the first record of TLS
	if first[0] == handshake {
		scheme = "https"
		certificate, err := serviceCertificate()
		if err != nil {
			conn.Close()
			log.Printf("kelson: the certificate of %s: %v", address, err)
			return
		}
		conn = tls.Server(conn, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			protocol := "http/1.1"
			if len(h.SupportedProtos) == 1 { // gRPC offers only HTTP/2; others offer both
				protocol = h.SupportedProtos[0]
			}
			return &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{protocol}}, nil
		}})
	}
	l := &single{conn: conn, closed: make(chan struct{})}
	handler := &httputil.ReverseProxy{Transport: toService{}, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Director: func(r *http.Request) {
			r.URL.Scheme, r.URL.Host = scheme, address
			r.Header["X-Forwarded-For"] = nil // no header of a proxy
		},
		// The connection ends without a response.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), Protocols: &http.Protocols{},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				l.Close()
			}
		}}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	_ = server.Serve(l) // the end of the connection
}

// certificate is the certificate of all services.
var certificate struct {
	once sync.Once
	pair tls.Certificate
	err  error
}

func serviceCertificate() (*tls.Certificate, error) {
	certificate.once.Do(func() {
		files := strings.SplitN(os.Getenv(CertificateVariable)+",", ",", 3)
		certificate.pair, certificate.err = tls.LoadX509KeyPair(files[0], files[1])
	})
	return &certificate.pair, certificate.err
}

// toService sends a request to a service by the kelson process.
type toService struct{}

// RoundTrip implements http.RoundTripper.
func (toService) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			body, err = firstMessage(r.Body)
		} else {
			body, err = io.ReadAll(r.Body)
		}
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	return agent.exchange(r, Outside,
		&Message{Method: r.Method, Target: r.URL.String(), Header: fields(r.Header), Body: body})
}

// firstMessage returns the first message of a gRPC call, with the five bytes that precede it. Some
// clients end a stream only after the response.
func firstMessage(from io.Reader) ([]byte, error) {
	prefix := make([]byte, 5)
	if _, err := io.ReadFull(from, prefix); err != nil {
		if err == io.EOF {
			return nil, nil
		}
		return nil, err
	}
	message, err := io.ReadAll(io.LimitReader(from, int64(binary.BigEndian.Uint32(prefix[1:]))))
	return append(prefix, message...), err
}

// peeked is a connection of which a part was read.
type peeked struct {
	net.Conn
	before []byte
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) {
	if len(p.before) > 0 {
		n := copy(b, p.before)
		p.before = p.before[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// single is a listener with one connection.
type single struct {
	conn   net.Conn // nil after Accept
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (s *single) Accept() (net.Conn, error) {
	if conn := s.conn; conn != nil {
		s.conn = nil
		return conn, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *single) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *single) Addr() net.Addr { return &net.TCPAddr{} }
