package aggregator

import (
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/transport"
)

// connect configures the backend's connections and its proxy. Configuration errors go to broken.
func (b *backend) connect() {
	ref := b.spec.Service
	verification := &transport.Config{TLS: transport.TLSConfig{
		Insecure:   b.spec.InsecureSkipTLSVerify,
		ServerName: ref.Name + "." + ref.Namespace + ".svc",
		CAData:     b.spec.CABundle,
	}}
	config, err := transport.TLSConfigFor(verification)
	if err != nil {
		b.broken = err
		return
	}
	config.GetClientCertificate = b.cfg.ProxyClient
	dial := b.cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	b.connections = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConnsPerHost:    25,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
	b.upgrades = b.connections.Clone()
	b.upgrades.ForceAttemptHTTP2, b.upgrades.TLSClientConfig.NextProtos = false, nil
	b.upgrades.Protocols = new(http.Protocols)
	b.upgrades.Protocols.SetHTTP1(true)
	b.proxy = b.newProxy()
}

// maxHeader bounds the header of a backend's response, in bytes.
const maxHeader = 1 << 20
