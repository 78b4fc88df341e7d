package testenv

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/pki"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
)

// Webhooks makes the control plane connect to admission and conversion webhooks in this process,
// over TLS as in a cluster but without ports, so that they work in a testing/synctest bubble.
//
// Operator then serves the webhooks of its parts in this way. Functions of Run that call
// operator.Run pass it [WebhookConfig]. Both set the operator's address and CA bundle in webhook
// configurations and CustomResourceDefinitions, and create missing webhook configurations, as in
// kelson dev. For other operators, [ServeWebhooks] serves any handler.
//
// The webhooks are in use when the operator is quiet after its start: call Settle, or Eventually.
//
// Webhooks also installs the webhook configurations in folders or files, such as config/webhook. It
// skips other objects there.
func Webhooks(paths ...string) Option {
	return func(o *options) { o.webhooks, o.hookPaths = true, append(o.hookPaths, paths...) }
}

type envKey struct{}

// networkOf returns the network of the Env that called a function of Run with ctx, or nil.
func networkOf(ctx context.Context) (*Env, *inprocess.Network) {
	env, _ := ctx.Value(envKey{}).(*Env)
	if env == nil {
		return nil, nil
	}
	return env, env.network
}

// WebhookConfig returns how an operator in a function of [Run] serves webhooks without a port:
//
//	testenv.Run(func(ctx context.Context, config *rest.Config) error {
//		return operator.Run(ctx, operator.Config{REST: config, Webhooks: testenv.WebhookConfig(ctx)}, parts...)
//	})
//
// It is the zero WebhookConfig if the Env was created without [Webhooks]. ctx is the function's
// context.
func WebhookConfig(ctx context.Context) manager.WebhookConfig {
	_, network := networkOf(ctx)
	if network == nil {
		return manager.WebhookConfig{}
	}
	listener, err := network.Listen("")
	if err != nil {
		panic(err) // unreachable: the network chooses a free address
	}
	return manager.WebhookConfig{Local: true, Listener: listener}
}

// ServeWebhooks serves webhooks of operators that do not use Kelson's library, until ctx ends. It
// receives the requests for all webhooks whose configurations name a Service. It issues the
// certificate, and first writes its CA bundle into the existing webhook configurations and
// CustomResourceDefinitions that name a Service. Call it in a function of [Run], with its context,
// in an Env with [Webhooks]. For controller-runtime, wrap its server:
//
//	type hooks struct{ webhook.Server }
//
//	func (h hooks) Start(ctx context.Context) error {
//		return testenv.ServeWebhooks(ctx, h.WebhookMux())
//	}
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{WebhookServer: hooks{webhook.NewServer(webhook.Options{})}})
func ServeWebhooks(ctx context.Context, handler http.Handler) error {
	env, network := networkOf(ctx)
	if network == nil {
		return errors.New("serve webhooks in a test: the context is not that of a function of testenv.Run, or the Env lacks the option testenv.Webhooks")
	}
	server := &http.Server{
		Handler: handler, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{GetCertificate: env.options.hooks.certificate},
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(env.services(), "", "") }()
	err := env.TrustWebhooks(ctx)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
			return err
		}
	}
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if server.Shutdown(graceful) != nil {
		server.Close()
	}
	<-served
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ServiceWebhookConfig makes an operator on Kelson's library serve all webhooks whose
// configurations name a Service, as [ServeWebhooks] does for other operators. Unlike with
// [WebhookConfig], the operator changes no configurations: call Env.TrustWebhooks once. It is the
// zero WebhookConfig if the Env was made without [Webhooks].
func ServiceWebhookConfig(ctx context.Context) manager.WebhookConfig {
	env, network := networkOf(ctx)
	if network == nil {
		return manager.WebhookConfig{}
	}
	return manager.WebhookConfig{Listener: env.services(), TLS: func(c *tls.Config) {
		c.GetCertificate = env.options.hooks.certificate
	}}
}

// hooks is the authority of the webhooks of an Env and its forks.
type hooks struct {
	authority *pki.Authority
	byName    sync.Map // certificates, by the name of the server
}

func newHooks() (*hooks, error) {
	authority, err := pki.NewAuthority("testenv-webhooks")
	return &hooks{authority: authority}, err
}

func (h *hooks) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	serving, _ := h.byName.LoadOrStore(hello.ServerName, h.authority.Serving(hello.ServerName))
	return serving.(func(*tls.ClientHelloInfo) (*tls.Certificate, error))(hello)
}

// services returns a listener for all Services. It waits until the previous listener, which may
// belong to a process that is ending, is closed.
func (e *Env) services() net.Listener {
	return &successor{network: e.network, closed: make(chan struct{})}
}

type successor struct {
	network *inprocess.Network
	closed  chan struct{}

	mu    sync.Mutex
	inner net.Listener // nil until the address is free
}

// Accept implements net.Listener.
func (s *successor) Accept() (net.Conn, error) {
	for {
		inner, err := s.listen()
		if err == nil {
			return inner.Accept()
		}
		select {
		case <-s.closed:
			return nil, net.ErrClosed
		case <-time.After(time.Second):
		}
	}
}

func (s *successor) listen() (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, net.ErrClosed
	default:
	}
	if s.inner == nil {
		inner, err := s.network.Listen(inprocess.Services)
		if err != nil {
			return nil, err
		}
		s.inner = inner
	}
	return s.inner, nil
}

// Close implements net.Listener.
func (s *successor) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil
	default:
	}
	close(s.closed)
	if s.inner != nil {
		return s.inner.Close()
	}
	return nil
}

// Addr implements net.Listener.
func (s *successor) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9443} }

// OperatorContext returns a context for calling functions such as those of [Run] outside of New:
// [WebhookConfig], [ServiceWebhookConfig] and [ServeWebhooks] need it.
func (e *Env) OperatorContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, envKey{}, e)
}

// HasWebhooks reports whether the Env of a context was made with [Webhooks].
func HasWebhooks(ctx context.Context) bool {
	_, network := networkOf(ctx)
	return network != nil
}

// TrustWebhooks writes the CA bundle of the webhooks of [ServeWebhooks] and [ServiceWebhookConfig]
// into the webhook configurations and CustomResourceDefinitions that name a Service. Forks have the
// same CA.
func (e *Env) TrustWebhooks(ctx context.Context) error {
	if e.options.hooks == nil {
		return nil
	}
	return e.trust(ctx, e.options.hooks.authority.PEM)
}

// WriteWebhookCertificate writes a serving certificate to a folder, for a program that serves the
// webhooks whose configurations name a Service. As in the Secrets of cert-manager, the files are
// tls.crt, tls.key and ca.crt. The certificate is valid for all Services that the existing
// configurations and CustomResourceDefinitions name. TrustWebhooks makes the control plane trust
// it.
func (e *Env) WriteWebhookCertificate(ctx context.Context, dir string) error {
	if e.options.hooks == nil {
		return errors.New("write the certificate of webhooks: the Env lacks the option testenv.Webhooks")
	}
	hosts, err := e.webhookHosts(ctx)
	if err != nil {
		return err
	}
	pair, err := e.options.hooks.authority.Server(hosts...)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM,
		"ca.crt": e.options.hooks.authority.PEM} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// webhookHosts returns the names of the Services of all registrations of webhooks.
func (e *Env) webhookHosts(ctx context.Context) ([]string, error) {
	hosts := map[string]bool{}
	for _, kind := range hookKinds {
		list, err := e.registrations(ctx, kind)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			for _, config := range clientConfigs(list.Items[i].Object) {
				namespace, _, _ := unstructured.NestedString(config, "service", "namespace")
				if name, ok, _ := unstructured.NestedString(config, "service", "name"); ok {
					hosts[name+"."+namespace+".svc"] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(hosts)), nil
}

func (e *Env) registrations(ctx context.Context, kind schema.GroupVersionKind) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := e.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list registrations of webhooks: %w", err)
	}
	return list, nil
}

// hookKinds lists the kinds that register webhooks, with the path of the list or the object that
// contains the client configurations.
var hookKinds = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
}

// trust writes a CA bundle into all registrations of webhooks that name a Service.
func (e *Env) trust(ctx context.Context, pem []byte) error {
	for _, kind := range hookKinds {
		list, err := e.registrations(ctx, kind)
		if err != nil {
			return err
		}
		for i := range list.Items {
			obj := &list.Items[i]
			before := obj.DeepCopy()
			if !setBundle(obj.Object, pem) {
				continue
			}
			if err := e.client.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("set the CA bundle of %s %s: %w", kind.Kind, obj.GetName(), err)
			}
		}
	}
	return nil
}

// setBundle sets the CA bundle of all client configurations with a Service in a registration.
func setBundle(obj map[string]any, pem []byte) (changed bool) {
	for _, config := range clientConfigs(obj) {
		bundle := base64.StdEncoding.EncodeToString(pem)
		changed = changed || config["caBundle"] != bundle
		config["caBundle"] = bundle
	}
	return changed
}

// clientConfigs returns the client configurations with a Service in a registration.
func clientConfigs(obj map[string]any) (configs []map[string]any) {
	var all []any
	hooks, _ := obj["webhooks"].([]any)
	for _, hook := range hooks {
		if hook, ok := hook.(map[string]any); ok {
			all = append(all, hook["clientConfig"])
		}
	}
	config, _, _ := unstructured.NestedFieldNoCopy(obj, "spec", "conversion", "webhook", "clientConfig")
	for _, config := range append(all, config) {
		if config, ok := config.(map[string]any); ok && config["service"] != nil {
			configs = append(configs, config)
		}
	}
	return configs
}

// dialWebhook connects to a webhook in this process. Those at other addresses are on the network.
func dialWebhook(n *inprocess.Network) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err == nil && !n.Listens(address) && !strings.HasSuffix(host, ".svc") {
			return (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, network, address)
		}
		return n.DialContext(ctx, network, address)
	}
}

// AwaitWebhooks waits until the webhooks of the operators in the Env are registered. In virtual
// time, that is when everything has settled: see Settle. It fails the test without the option
// Webhooks.
func (e *Env) AwaitWebhooks(t testing.TB) {
	t.Helper()
	if e.network == nil {
		t.Fatal("testenv: AwaitWebhooks needs the option Webhooks")
	}
	e.Settle(t)
}
