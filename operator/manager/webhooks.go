package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
	"kelson.dev/operator/webhook"
)

// WebhookConfig configures how webhooks are served. By default, the operator issues certificates
// itself, keeps them in a Secret if it runs in a cluster, and writes the CA bundle into the webhook
// configurations.
type WebhookConfig struct {
	// Address is the host:port to listen at; ":9443" if empty.
	Address string
	// Listener, if not nil, is used instead of Address, for example one without a port in tests.
	Listener net.Listener
	// CertDir is a directory with externally managed certificates. CertName and KeyName are the
	// names of the files (tls.crt and tls.key). The default is webhook.DefaultDirectory, if that
	// has the files. With a directory, the operator does not modify webhook configurations.
	CertDir, CertName, KeyName string
	// Namespace is the namespace of the operator; InClusterNamespace if empty. Secret is the name
	// of the Secret with the certificates; <operator name>-webhook-cert if empty.
	Namespace, Secret string
	// Local is for an operator on a developer's machine, with an API server that can reach it
	// there: the operator changes webhook configurations to refer to its address, and creates
	// missing ones while it runs.
	Local bool
	// Registrar, if not nil, changes webhook configurations and CustomResourceDefinitions instead
	// of the operator's own client: in a test, the operator may have only the rights of production,
	// where it does not create configurations.
	Registrar client.Client
	// Progress, if not nil, is called with the names of the webhooks that are not yet registered:
	// see webhook.RegistrationConfig. It is called with none if the operator has no webhooks, and
	// never if it does not change configurations.
	Progress func(missing []string)
	// TLS, if not nil, changes the TLS configuration.
	TLS func(*tls.Config)
}

// webhooks has the webhooks of a manager.
type webhooks struct {
	mu          sync.Mutex
	handlers    map[string]http.Handler
	hooks       []webhook.Hook
	conversions []schema.GroupKind
	server      *webhook.Server // nil until it runs
}

// AddWebhook serves an admission webhook at hook.Path, which defaults to controller-runtime's path
// for its kind. Call it before the manager runs.
func (m *Manager) AddWebhook(hook webhook.Hook, h webhook.Handler) error {
	if hook.Path == "" {
		if hook.Path = webhook.ValidatePath(hook.Kind); hook.Mutating {
			hook.Path = webhook.MutatePath(hook.Kind)
		}
	}
	if err := m.hooks.add(hook.Path, webhook.Review(h)); err != nil {
		return err
	}
	m.hooks.hooks = append(m.hooks.hooks, hook)
	return nil
}

// AddConversion serves the conversion of a kind between its versions in the manager's scheme. Call
// it before the manager runs.
func (m *Manager) AddConversion(kind schema.GroupKind) error {
	c := webhook.NewConversion(m.own.live.Scheme())
	if err := c.Check(kind); err != nil {
		return err
	}
	if len(m.hooks.conversions) == 0 {
		if err := m.hooks.add(webhook.ConvertPath, c); err != nil {
			return err
		}
	}
	m.hooks.conversions = append(m.hooks.conversions, kind)
	return nil
}

// WebhookServer returns the server of the webhooks; nil if there are none, or if the manager does
// not run.
func (m *Manager) WebhookServer() *webhook.Server {
	m.hooks.mu.Lock()
	defer m.hooks.mu.Unlock()
	return m.hooks.server
}

func (w *webhooks) add(path string, h http.Handler) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("add webhook %q: a path begins with a slash", path)
	}
	if w.handlers == nil {
		w.handlers = map[string]http.Handler{}
	}
	if w.server != nil {
		return fmt.Errorf("add webhook %s: the manager is already running", path)
	}
	if w.handlers[path] != nil {
		return fmt.Errorf("add webhook %s: the path is already registered", path)
	}
	w.handlers[path] = h
	return nil
}

// start starts the webhook server and waits until it serves, because informers may need
// conversions.
func (w *webhooks) start(ctx context.Context, m *Manager, g *group) error {
	cfg := m.cfg.Webhooks
	if len(w.handlers) == 0 {
		if cfg.Progress != nil {
			cfg.Progress(nil)
		}
		return nil
	}
	if cfg.Namespace == "" {
		cfg.Namespace = InClusterNamespace()
	}
	certificates, authority, err := cfg.certificates(m)
	if err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Config{
		Address: cfg.Address, Listener: cfg.Listener, Certificates: certificates, TLS: cfg.TLS,
		Instrument: m.metrics.instrument, Log: m.cfg.Log,
	})
	for path, h := range w.handlers {
		if err := server.Register(path, h); err != nil {
			return err
		}
	}
	if err := server.Listen(); err != nil {
		return err
	}
	w.mu.Lock()
	w.server = server
	w.mu.Unlock()
	m.ready.add("webhooks", server.Check)
	if authority != nil {
		g.start(authority)
		select {
		case <-authority.Ready():
		case <-ctx.Done():
			return nil
		}
	}
	g.start(server)
	if authority != nil && (cfg.Local || cfg.Namespace != "") {
		registration := webhook.RegistrationConfig{
			Client: m.own.live, CABundle: authority.CABundle, Hooks: w.hooks, Conversions: w.conversions,
			Namespace: cfg.Namespace, Name: m.own.live.FieldOwner(), Progress: cfg.Progress, Log: m.cfg.Log,
		}
		if cfg.Registrar != nil {
			registration.Client = cfg.Registrar
		}
		if cfg.Local {
			_, port, err := net.SplitHostPort(server.Address())
			if err != nil {
				return err
			}
			registration.URL = "https://127.0.0.1:" + port
		}
		g.start(webhook.NewRegistration(registration))
	}
	select {
	case <-server.Listening():
	case <-ctx.Done():
	}
	return nil
}

// certificates returns the certificates in a directory, or a new authority.
func (cfg *WebhookConfig) certificates(m *Manager) (webhook.Certificates, *webhook.Authority, error) {
	dir := cfg.CertDir
	if dir == "" && !cfg.Local {
		name := cfg.CertName
		if name == "" {
			name = "tls.crt"
		}
		if _, err := os.Stat(filepath.Join(webhook.DefaultDirectory(), name)); err == nil {
			dir = webhook.DefaultDirectory()
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, nil, err
		}
	}
	if dir != "" {
		d, err := webhook.NewDirectory(dir, cfg.CertName, cfg.KeyName)
		if err != nil {
			return nil, nil, fmt.Errorf("webhooks: %w", err)
		}
		m.observe(d)
		return d, nil, nil
	}
	ac := webhook.AuthorityConfig{Names: []string{"localhost", "127.0.0.1"}, Log: m.cfg.Log}
	if cfg.Namespace != "" && !cfg.Local {
		secret := cfg.Secret
		if secret == "" {
			secret = m.own.live.FieldOwner() + "-webhook-cert"
		}
		ac.Client, ac.Secret = m.own.live, client.Key{Namespace: cfg.Namespace, Name: secret}
		// Any Service in the namespace may be in front of the operator.
		ac.Names = append(ac.Names, "*."+cfg.Namespace+".svc", "*."+cfg.Namespace+".svc.cluster.local")
	}
	a := webhook.NewAuthority(ac)
	return a, a, nil
}

// observe counts and logs how often a certificate is read from its files.
func (m *Manager) observe(c webhook.Certificates) {
	d, ok := c.(*webhook.Directory)
	if !ok || d.OnRead != nil {
		return
	}
	m.metrics.certReads.Inc() // by NewDirectory
	d.OnRead = func(err error) {
		m.metrics.certReads.Inc()
		if err != nil {
			m.metrics.certErrors.Inc()
			m.cfg.Log.Error("new certificate is not usable; the old one stays in use until the files change", "err",
				err)
			return
		}
		m.cfg.Log.Info("certificate was read again, because its files changed")
	}
}

// instrument adds metrics to a webhook's handler.
func (m *metrics) instrument(path string, h http.Handler) (http.Handler, func()) {
	labels := prometheus.Labels{"webhook": path}
	requests := m.hookRequests.MustCurryWith(labels)
	// so that rates are correct from the first request on
	for _, code := range []string{"200", "500"} {
		requests.WithLabelValues(code)
	}
	h = promhttp.InstrumentHandlerInFlight(m.hookInFlight.With(labels),
		promhttp.InstrumentHandlerCounter(requests,
			promhttp.InstrumentHandlerDuration(m.hookTook.MustCurryWith(labels), h)))
	if path == webhook.ConvertPath {
		return h, m.convPanics.Inc
	}
	return h, m.hookPanics.WithLabelValues().Inc
}
