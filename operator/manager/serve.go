package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kelson.dev/operator/informer"
)

// AddHealthCheck adds a check to /healthz. While it fails, the operator should be restarted.
func (m *Manager) AddHealthCheck(name string, check func(context.Context) error) {
	m.health.add(name, check)
}

// AddReadyCheck adds a check to /readyz. While it fails, the operator is not ready. /readyz always
// checks that the informers are synced.
func (m *Manager) AddReadyCheck(name string, check func(context.Context) error) {
	m.ready.add(name, check)
}

// HealthHandler returns a handler of /healthz and /readyz.
func (m *Manager) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", &m.health)
	mux.Handle("/readyz", &m.ready)
	return mux
}

// MetricsHandler returns a handler of /metrics in the Prometheus formats.
func (m *Manager) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.metrics.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return mux
}

// patience is how long a watch of a synced informer may fail before the operator becomes unready.
const patience = 30 * time.Second

func (m *Manager) informersSynced(context.Context) error { return synced(m.own) }

// synced returns an error that names the informers of a cluster that are not synced or out of date.
// It does not wait, because a probe reports the current state. A missing permission is reported
// immediately, because retries do not fix it.
func synced(c *Cluster) error {
	var wrong []string
	for _, s := range c.informers.Statuses() {
		missing := (*informer.MissingPermission)(nil)
		if !s.Synced || s.Err != nil && (errors.As(s.Err, &missing) || time.Since(s.Since) > patience) {
			wrong = append(wrong, s.String())
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

func (m *Manager) startServers(g *group) error {
	for _, s := range []struct {
		what, address string
		handler       http.Handler
		secure        *SecureMetrics
	}{
		{"health probes", m.cfg.HealthAddress, rejectRebinding(m.HealthHandler()), nil},
		{"metrics", m.cfg.MetricsAddress, rejectRebinding(m.MetricsHandler()), m.cfg.SecureMetrics},
		{"trace", m.cfg.TraceAddress, rejectRebinding(m.traces), nil},
	} {
		if s.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", s.address)
		if err != nil {
			return fmt.Errorf("serve %s: %w", s.what, err)
		}
		m.cfg.Log.Info("serving "+s.what, "address", listener.Addr().String())
		if s.secure != nil {
			if listener, s.handler, err = s.secure.secure(m, g, listener, s.handler); err != nil {
				return fmt.Errorf("serve %s: %w", s.what, err)
			}
		}
		g.start(&server{listener: listener, handler: s.handler})
	}
	return nil
}

// Limits of requests to the manager's own ports, which have no bodies and short headers. Clients
// that send or read more slowly lose their connection.
const (
	readWithin  = 10 * time.Second
	writeWithin = time.Minute
	maxHeader   = 64 << 10
)

// server is a Runnable HTTP server.
type server struct {
	listener net.Listener
	handler  http.Handler
}

func (s *server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readWithin, WriteTimeout: writeWithin,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: maxHeader,
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(graceful) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(s.listener)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// checks is the handler of a probe: 200 if all checks pass, otherwise 500 with the failed ones.
type checks struct {
	mu  sync.Mutex
	all []*check
}

type check struct {
	name string
	do   func(context.Context) error
}

func (c *checks) add(name string, do func(context.Context) error) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := &check{name, do}
	c.all = append(c.all, added)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = slices.DeleteFunc(slices.Clone(c.all), func(other *check) bool { return other == added })
	}
}

func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	all := c.all
	c.mu.Unlock()
	var report strings.Builder
	passed := true
	for _, check := range all {
		if err := check.do(r.Context()); err != nil {
			passed = false
			fmt.Fprintf(&report, "[-]%s: %v\n", check.name, err)
		} else {
			fmt.Fprintf(&report, "[+]%s ok\n", check.name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch _, verbose := r.URL.Query()["verbose"]; {
	case !passed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, report.String())
	case verbose:
		fmt.Fprint(w, report.String())
	default:
		fmt.Fprint(w, "ok")
	}
}
