// Package serving puts a control plane on a TLS port: listener, certificates, HTTP/2, drain.
//
//	listener, err := https.Listen("127.0.0.1:0")
//	srv, err := https.New(https.Config{Listener: listener, Handler: plane.Handler(), Certificate: ca.Serving("127.0.0.1")})
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
	"syscall"
	"time"

	"kelson.dev/apiserver/serving/coalesce"
)

// Config says what to serve where.
type Config struct {
	// Listener is the bound port; the server closes it.
	Listener net.Listener
	Handler  http.Handler
	// Certificate gives the serving certificate for each connection: see pki.Authority.Serving and pki.Files.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCAs gives the authorities that clients are told to have certificates of, for each connection; nil: any.
	ClientCAs func() *x509.CertPool
	// Drain ends what the handler still has in hand (watches first) and returns when short requests are done or ctx ends.
	// nil: none.
	Drain func(ctx context.Context) error
	// Grace bounds the drain; 0 means 60 seconds.
	Grace time.Duration
	Log   *slog.Logger
}

// Server is a bound port. Run serves it.
type Server struct {
	cfg  Config
	http *http.Server
}

const (
	// writeTimeout bounds the time from a request's header to the end of its answer, also of what is sent after the handler has returned. It
	// is longer than the time that handlers take for short requests; those that take longer lift it with http.ResponseController.
	writeTimeout = 90 * time.Second
	// stall bounds a write to an HTTP/2 connection. All its streams wait for a client that does not read.
	stall = 30 * time.Second
)

// ErrPortInUse says that another process listens on the address.
var ErrPortInUse = errors.New("address already in use")

// Listen binds host:port; port 0 picks a free one. Connections wait from now on until a Server answers them.
func Listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w", address, ErrPortInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// New makes a server; Run makes it serve.
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
	return &Server{cfg: cfg, http: &http.Server{
		Handler:           cfg.Handler,
		TLSConfig:         cfg.tls(),
		ReadHeaderTimeout: 32 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ConnContext:       coalesce.Context,
	}}, nil
}

// tls is how connections are made.
func (cfg *Config) tls() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: cfg.Certificate,
		// Whether a certificate is trusted is decided by authentication, which can answer with a Status.
		ClientAuth: tls.RequestClientCert,
		// Small records are for the first byte to arrive sooner over slow lines. Each is a call of the operating system here, and most answers
		// and events are a little larger than one.
		DynamicRecordSizingDisabled: true,
	}
	base := config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") {
			coalesce.Bound(hello.Conn, stall)
		}
		if cfg.ClientCAs == nil {
			return nil, nil
		}
		now := base.Clone()
		now.ClientCAs = cfg.ClientCAs()
		return now, nil
	}
	return config
}

// Addr is the bound address.
func (s *Server) Addr() *net.TCPAddr { return s.cfg.Listener.Addr().(*net.TCPAddr) }

// URL is where clients on this machine reach the server.
func (s *Server) URL() string {
	addr := *s.Addr()
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	return "https://" + addr.String()
}

// Run serves until ctx ends, then drains for at most Config.Grace. It returns nil after a clean end.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.ServeTLS(coalesce.Listener(s.cfg.Listener), "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	var drained error
	if s.cfg.Drain != nil {
		drained = s.cfg.Drain(end)
	}
	if err := s.http.Shutdown(end); err != nil {
		s.http.Close()
		drained = errors.Join(drained, err)
	}
	<-failed
	if drained != nil {
		return fmt.Errorf("drain: %w", drained)
	}
	return nil
}
