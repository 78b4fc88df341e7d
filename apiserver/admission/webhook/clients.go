package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/bounded"
	"kelson.dev/apiserver/services"
)

// clients caches one client per client configuration.
type clients struct {
	services   *services.Resolver
	kubeconfig string            // file with the server's credentials for webhooks; "": none
	transport  http.RoundTripper // instead of the network; may be nil
	dial       dialer            // instead of the network; may be nil

	mu       sync.Mutex
	byConfig map[string]*client
}

type client struct {
	rest *rest.RESTClient
	base *http.Transport
}

// get returns the client for a webhook.
func (c *clients) get(hook webhook.WebhookAccessor) (*rest.RESTClient, error) {
	key, err := clientKey(hook)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing := c.byConfig[key]; existing != nil {
		return existing.rest, nil
	}
	made, err := c.make(hook.GetName(), hook.GetClientConfig())
	if err != nil {
		return nil, err
	}
	if c.byConfig == nil {
		c.byConfig = map[string]*client{}
	}
	c.byConfig[key] = made
	return made.rest, nil
}

func clientKey(hook webhook.WebhookAccessor) (string, error) {
	key, err := json.Marshal(hook.GetClientConfig())
	return string(key), err
}

// keep closes the clients that none of the webhooks needs.
func (c *clients) keep(all []webhook.WebhookAccessor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byConfig) == 0 {
		return
	}
	used := map[string]bool{}
	for _, hook := range all {
		if key, err := clientKey(hook); err == nil {
			used[key] = true
		}
	}
	for key, existing := range c.byConfig {
		if !used[key] {
			existing.base.CloseIdleConnections()
			delete(c.byConfig, key)
		}
	}
}

func (c *clients) stop() { c.keep(nil) }

// negotiated encodes and decodes AdmissionReviews.
var negotiated = sync.OnceValue(func() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	if err := errors.Join(admissionv1.AddToScheme(scheme), admissionv1beta1.AddToScheme(scheme)); err != nil {
		panic(err) // compiled-in types
	}
	return serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{
		Serializer: serializer.NewCodecFactory(scheme).LegacyCodec(admissionv1beta1.SchemeGroupVersion,
			admissionv1.SchemeGroupVersion),
	})
})

func (c *clients) make(name string, cc admissionregistrationv1.WebhookClientConfig) (*client, error) {
	callers, err := webhookutil.NewDefaultAuthenticationInfoResolver(c.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg, dial, err := c.target(callers, name, cc)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.NegotiatedSerializer = negotiated()
	cfg.ContentType = runtime.ContentTypeJSON
	if len(cfg.CAData) > 0 {
		cfg.CAData = append(cfg.CAData, '\n')
	}
	cfg.CAData = append(cfg.CAData, cc.CABundle...)

	// The plugin has its restClient transport. client-go would share one and never close it.
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	base := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 25,
		IdleConnTimeout:     90 * time.Second,
	}
	next := c.transport
	if next == nil {
		next = base
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, bounded.Wrap(next))
	if err != nil {
		return nil, err
	}
	cfg.TLSClientConfig = rest.TLSClientConfig{} // part of the transport
	restClient, err := rest.UnversionedRESTClientForConfigAndClient(cfg,
		&http.Client{Transport: wrapped, Timeout: cfg.Timeout})
	if err != nil {
		return nil, err
	}
	return &client{rest: restClient, base: base}, nil
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// target returns the address of a webhook and how to connect to it.
func (c *clients) target(callers webhookutil.AuthenticationInfoResolver, name string,
	cc admissionregistrationv1.WebhookClientConfig) (*rest.Config, dialer, error) {
	direct := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	if c.dial != nil {
		direct = c.dial
	}
	if cc.Service != nil {
		port := int32(443)
		if cc.Service.Port != nil {
			port = *cc.Service.Port
		}
		found, err := callers.ClientConfigForService(cc.Service.Name, cc.Service.Namespace, int(port))
		if err != nil {
			return nil, nil, err
		}
		cfg := rest.CopyConfig(found)
		serverName := cc.Service.Name + "." + cc.Service.Namespace + ".svc"
		host := net.JoinHostPort(serverName, strconv.Itoa(int(port)))
		cfg.Host = "https://" + host
		if cc.Service.Path != nil {
			cfg.APIPath = *cc.Service.Path
		}
		if cfg.ServerName == "" {
			cfg.ServerName = serverName
		}
		return cfg, func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == host && c.dial == nil {
				at, err := c.services.ResolveEndpoint(cc.Service.Namespace, cc.Service.Name, port)
				if err != nil {
					return nil, err
				}
				address = at.Host
			}
			return direct(ctx, network, address)
		}, nil
	}
	if cc.URL == nil || *cc.URL == "" {
		return nil, nil, &webhookutil.ErrCallingWebhook{WebhookName: name,
			Reason: errors.New("webhook configuration must have either service or URL")}
	}
	u, err := url.Parse(*cc.URL)
	if err != nil {
		return nil, nil, &webhookutil.ErrCallingWebhook{WebhookName: name,
			Reason: fmt.Errorf("Unparsable URL: %w", err)}
	}
	hostPort := u.Host
	if u.Port() == "" {
		hostPort = net.JoinHostPort(hostPort, "443")
	}
	found, err := callers.ClientConfigFor(hostPort)
	if err != nil {
		return nil, nil, err
	}
	cfg := rest.CopyConfig(found)
	cfg.Host = u.Scheme + "://" + u.Host
	cfg.APIPath = u.Path
	return cfg, direct, nil
}
