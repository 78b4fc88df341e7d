package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	pathpkg "path"
	"slices"
	"sync"
	"time"

	"kelson.dev/operator/reconcile"
)

// Certificates provides the serving certificate of a Server.
type Certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// Config configures a Server.
type Config struct {
	// Address is the host:port to listen at; ":9443" if empty.
	Address string
	// Listener, if not nil, is used instead of Address.
	Listener net.Listener
	// Certificates is required.
	Certificates Certificates
	// TLS, if not nil, changes the TLS configuration.
	TLS func(*tls.Config)
	// Instrument, if not nil, wraps each handler to measure it. panicked is called for each request
	// whose handler panicked.
	Instrument func(path string, h http.Handler) (measured http.Handler, panicked func())
	// Log receives the server's log; slog.Default() if nil.
	Log *slog.Logger
}

// Server serves webhooks over HTTPS.
type Server struct {
	cfg Config
	mux *http.ServeMux

	mu        sync.Mutex
	paths     []string
	listening chan struct{} // closed when it serves
	address   string
}

// NewServer returns a server. It does nothing before Listen or Run.
func NewServer(cfg Config) *Server {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Address = cmp.Or(cfg.Address, ":9443")
	return &Server{cfg: cfg, mux: http.NewServeMux(), listening: make(chan struct{})}
}

type panicKey struct{}

// panicked reports a panic of a request's handler.
func panicked(ctx context.Context) {
	if note, ok := ctx.Value(panicKey{}).(func()); ok {
		note()
	}
}

// Register adds the handler of a path, which must not have one. It can be called at any time. The
// path begins with a slash, is clean (see path.Clean; a slash at the end is allowed), and has no
// characters that URLs escape.
func (s *Server) Register(path string, h http.Handler) error {
	if !isPath(path) {
		return fmt.Errorf("register webhook: invalid path %q", path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.paths, path) {
		return fmt.Errorf("register webhook: path %s is already registered", path)
	}
	s.paths = append(s.paths, path)
	note := func() {}
	if s.cfg.Instrument != nil {
		h, note = s.cfg.Instrument(path, h)
	}
	log := s.cfg.Log.With("webhook", path)
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(reconcile.WithLog(r.Context(), log), panicKey{}, note)
		h.ServeHTTP(w, r.WithContext(ctx))
	})
	return nil
}

// isPath reports whether a path is a pattern of http.ServeMux that matches only itself.
func isPath(text string) bool {
	clean := pathpkg.Clean(text)
	return clean[0] == '/' && (text == clean || clean != "/" && text == clean+"/") &&
		(&url.URL{Path: text}).EscapedPath() == text
}

// Paths returns the registered paths.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths)
}

// Handler returns a handler of all registered paths, for use without a port.
func (s *Server) Handler() http.Handler { return s.mux }

// Listening returns a channel that is closed when the server serves.
func (s *Server) Listening() <-chan struct{} { return s.listening }

// Address returns the address at which the server listens, or "".
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Check is a readiness check: it returns nil if the server serves and has a certificate.
func (s *Server) Check(context.Context) error {
	select {
	case <-s.listening:
	default:
		return errors.New("not listening yet")
	}
	_, err := s.cfg.Certificates.GetCertificate(&tls.ClientHelloInfo{})
	return err
}

// Listen opens the port. Run calls it if necessary.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address != "" {
		return nil
	}
	if s.cfg.Listener == nil {
		l, err := net.Listen("tcp", s.cfg.Address)
		if err != nil {
			return fmt.Errorf("serve webhooks: %w", err)
		}
		s.cfg.Listener = l
	}
	s.address = s.cfg.Listener.Addr().String()
	return nil
}

// within limits how long a client may take to send a request. An API server waits at most 30
// seconds for a response, so it sends and reads faster.
const within = 32 * time.Second

// Run serves until ctx ends, and then waits up to five seconds for requests in progress.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: s.cfg.Certificates.GetCertificate,
	}
	if s.cfg.TLS != nil {
		s.cfg.TLS(config)
	}
	srv := &http.Server{
		Handler: s.mux, TLSConfig: config, ReadHeaderTimeout: within, ReadTimeout: within, WriteTimeout: 2 * within,
		IdleTimeout: 90 * time.Second, MaxHeaderBytes: 1 << 20,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	s.cfg.Log.Info("serving webhooks", "address", s.Address(), "paths", s.Paths())
	close(s.listening)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if srv.Shutdown(graceful) != nil {
			_ = srv.Close()
		}
	})
	err := srv.ServeTLS(s.cfg.Listener, "", "")
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
