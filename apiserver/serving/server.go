// Package serving serves a control plane on a TLS port: listener, certificates, HTTP/2, drain.
//
//	listener, err := serving.Listen("127.0.0.1:0")
//	srv, err := serving.New(serving.Config{Listener: listener, Handler: plane.Handler(), Certificate: ca.Serving("127.0.0.1")})
//	err = srv.Run(ctx) // serves until ctx ends, then drains
package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"kelson.dev/apiserver/serving/coalesce"
)

// Config configures a Server.
type Config struct {
	// Listener is the bound port; the server closes it.
	Listener net.Listener
	Handler  http.Handler
	// Certificate returns the serving certificate of each connection; see pki.Authority.Serving and
	// pki.Files.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCAs returns, for each connection, the authorities from which the server requests a
	// client certificate; nil requests one from any authority.
	ClientCAs func() *x509.CertPool
	// Drain ends the long-running requests of the handler and returns when its short requests are
	// done or ctx ends. It may be nil.
	Drain func(ctx context.Context) error
	// Grace limits the duration of the drain; 0 means 60 seconds.
	Grace time.Duration
	// Linger limits how long Run waits, after the drain, for clients to close their connections;
	// HTTP/2 gives them a second. 0 means that only Grace limits it.
	Linger time.Duration
	// Stopping is called when the context of Run ends, before Delay begins; nil does nothing. It
	// should make the readiness check of the handler fail.
	Stopping func()
	// Delay is how long Run serves as before after its context has ended, before it drains. Clients
	// use the time to move to other servers.
	Delay time.Duration
	// RequestTimeout is the time limit of the handler's short requests; 0 means a minute.
	RequestTimeout time.Duration
	// MinTLS is the lowest TLS version, such as tls.VersionTLS13; 0 means TLS 1.2.
	MinTLS uint16
	// CipherSuites are those of TLS 1.2; nil means Go's.
	CipherSuites []uint16
	// Curves are the key exchange mechanisms of TLS; nil means Go's.
	Curves []tls.CurveID
	// NoHTTP2 serves HTTP/1.1 only.
	NoHTTP2 bool
	// MaxStreams limits the streams that a client has open on an HTTP/2 connection; 0 means 1000.
	MaxStreams int
	Log        *slog.Logger
}

// Server serves a bound port.
type Server struct {
	cfg  Config
	http *http.Server
}

const (
	// writeTimeout limits the time from the header of a request to the end of its response,
	// including data sent after the handler has returned. It exceeds the deadline of short
	// requests. Handlers of longer requests lift it with http.ResponseController.
	writeTimeout = 90 * time.Second
	// stall limits the duration of a write to an HTTP/2 connection. A client that does not read
	// blocks all streams of its connection.
	stall = 30 * time.Second
)

// ErrPortInUse means that another process listens on the address.
var ErrPortInUse = errors.New("address already in use")

// Listen binds host:port; port 0 selects a free port. Connections wait until a Server accepts them.
func Listen(address string) (net.Listener, error) { return ListenSharing(address, Sharing{}) }

// New returns a server, which does not serve before Run.
func New(cfg Config) (*Server, error) {
	if cfg.Grace == 0 {
		cfg.Grace = 60 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if _, err := cfg.Certificate(&tls.ClientHelloInfo{}); err != nil {
		return nil, err
	}
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = 1000
	}
	server := &Server{cfg: cfg, http: &http.Server{
		Handler:           withoutHeads(cfg.Handler),
		TLSConfig:         cfg.tls(),
		ReadHeaderTimeout: 32 * time.Second,
		WriteTimeout:      max(writeTimeout, cfg.RequestTimeout+writeTimeout/3),
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: cfg.MaxStreams},
		ConnContext:       coalesce.Context,
	}}
	if cfg.NoHTTP2 {
		server.http.Protocols = new(http.Protocols)
		server.http.Protocols.SetHTTP1(true)
	}
	return server, nil
}

// withoutHeads returns a handler that drops the head of a served HTTP/2 request. The server keeps
// the request until the client has accepted the response, for up to writeTimeout. Each connection
// can have MaxStreams such requests, with heads of a megabyte that a client sends as 30 KB.
func withoutHeads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(w, req)
		if req.ProtoMajor == 2 {
			req.Header, req.URL, req.RequestURI, req.Host = nil, nil, "", ""
		}
	})
}

// tls returns the TLS configuration.
func (cfg *Config) tls() *tls.Config {
	config := &tls.Config{
		MinVersion:       max(tls.VersionTLS12, cfg.MinTLS),
		CipherSuites:     cfg.CipherSuites,
		CurvePreferences: cfg.Curves,
		NextProtos:       []string{"h2", "http/1.1"},
		GetCertificate:   cfg.Certificate,
		// The authentication filter decides whether a certificate is trusted, because it can
		// respond with a Status.
		ClientAuth: tls.RequestClientCert,
		// Small records let the first byte arrive sooner over slow lines. But each record costs a
		// system call here, and most responses and events are a little larger than one small
		// record.
		DynamicRecordSizingDisabled: true,
	}
	if cfg.NoHTTP2 {
		config.NextProtos = []string{"http/1.1"}
	}
	base := config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") {
			coalesce.Bound(hello.Conn, stall)
		}
		if err := coalesce.Handshake(hello.Context(), hello.Conn); err != nil {
			return nil, err
		}
		if cfg.ClientCAs == nil {
			return nil, nil
		}
		current := base.Clone()
		current.ClientCAs = cfg.ClientCAs()
		return current, nil
	}
	return config
}

// Addr returns the bound address.
func (s *Server) Addr() *net.TCPAddr { return s.cfg.Listener.Addr().(*net.TCPAddr) }

// URL returns the URL of the server for clients on this machine.
func (s *Server) URL() string {
	addr := *s.Addr()
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	return "https://" + addr.String()
}

// Run serves until ctx ends, then drains for at most Config.Grace. It returns nil if the drain was
// complete.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.ServeTLS(coalesce.Listener(leavingFiles(s.cfg.Listener)), "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	if s.cfg.Stopping != nil {
		s.cfg.Stopping()
	}
	if s.cfg.Delay > 0 {
		select {
		case err := <-failed:
			return fmt.Errorf("serve %s: %w", s.Addr(), err)
		case <-time.After(s.cfg.Delay):
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	var drained error
	if s.cfg.Drain != nil {
		drained = s.cfg.Drain(end)
	}
	drained = errors.Join(drained, s.close(end))
	<-failed
	if drained != nil {
		return fmt.Errorf("drain: %w", drained)
	}
	return nil
}

// close waits until clients have closed their connections, for at most Linger, and closes the
// others. It returns an error if ctx ends first.
func (s *Server) close(ctx context.Context) error {
	wait := ctx
	if s.cfg.Linger > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, s.cfg.Linger)
		defer cancel()
	}
	err := s.http.Shutdown(wait)
	if err != nil {
		s.http.Close()
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
