package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"kelson.dev/operator/internal/http1"
)

const (
	// maxConnections is how many requests of one client can be in flight; further requests wait.
	// Watches do not count.
	maxConnections = 100
	// maxLeaseConnections is the same for requests of Leases, which have their own connections.
	maxLeaseConnections = 10
	// idleTimeout is less than the idle timeouts of kube-apiserver (90 s) and of common load
	// balancers (60 s): a request is lost if the other end closes the connection while it is being
	// sent.
	idleTimeout = 45 * time.Second
	// deadAfter is approximately how long the peer of a connection may fail to acknowledge probes
	// or data.
	deadAfter = 45 * time.Second
	// answerWithin is how long a server may take to begin a response, unless the configuration has
	// a longer timeout. kube-apiserver ends requests after a minute. A load balancer that has lost
	// the server may acknowledge the request and never respond.
	answerWithin = 2 * time.Minute
)

// NetHTTPEnv is an environment variable with the effect of Config.NetHTTP for every client of the
// process; true or false.
const NetHTTPEnv = "KELSON_NET_HTTP"

func usesNetHTTP(cfg Config) (bool, error) {
	text := os.Getenv(NetHTTPEnv)
	if cfg.NetHTTP || text == "" {
		return cfg.NetHTTP, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("environment variable %s=%q: want true or false", NetHTTPEnv, text)
	}
	return on, nil
}

// newHTTPClient returns an HTTP client for a server, with at most the given number of connections
// for reads and the same number for writes; zero means no limit.
//
// It uses HTTP/1.1 unless the configuration lists protocols, with a connection for each request in
// flight and for each watch. Compared to HTTP/2, both sides need a third less CPU time for a small
// request, a watch that is read slowly does not block others, and requests spread over the servers
// behind an address.
//
// Package http1 sends small writes, unless netHTTP is set.
func newHTTPClient(conf *rest.Config, connections int, netHTTP bool) (*http.Client, error) {
	conf = rest.CopyConfig(conf)
	if conf.Transport == nil && len(conf.NextProtos) == 0 {
		conf.NextProtos = []string{"http/1.1"}
		if conf.Dial == nil {
			conf.Dial = dialer().DialContext
		}
		conf.Dial = http1.Observed(conf.Dial) // before client-go wraps connections
		conf.WrapTransport = transport.Wrappers(innermost(connections, conf.CAFile, netHTTP, max(answerWithin, conf.Timeout)), conf.WrapTransport)
	}
	client, err := rest.HTTPClientFor(conf)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	return client, nil
}

// innermost wraps the transport that client-go creates for a configuration. Each client has its own
// transport, because no two have the same dialer.
func innermost(connections int, caFile string, netHTTP bool, answer time.Duration) transport.WrapperFunc {
	return func(rt http.RoundTripper) http.RoundTripper {
		base := bottom(rt)
		if base == nil {
			return rt
		}
		base.MaxConnsPerHost, base.MaxIdleConnsPerHost, base.IdleConnTimeout = connections, maxConnections, idleTimeout
		if connections == 0 {
			return rt
		}
		base.ResponseHeaderTimeout = answer
		if netHTTP {
			return rt
		}
		return http1.New(http1.Config{
			Base: base, Otherwise: rt, Connections: connections, Idle: idleTimeout, Answer: answer,
			TLS: func() *tls.Config { return trusting(bottom(rt).TLSClientConfig, caFile) },
		})
	}
}

// bottom returns the http.Transport below its wrappers; nil if there is none. One of the wrappers
// replaces the transport when the CA file changes.
func bottom(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			return t
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

// trusting returns a configuration with the current content of a CA file, if there is one.
func trusting(conf *tls.Config, caFile string) *tls.Config {
	if caFile == "" || conf.RootCAs == nil {
		return conf
	}
	text, err := os.ReadFile(caFile)
	if pool := x509.NewCertPool(); err == nil && pool.AppendCertsFromPEM(text) {
		conf = conf.Clone()
		conf.RootCAs = pool
	}
	return conf // unchanged if the file is missing or incomplete
}

// dialer returns a dialer whose connections detect a dead peer.
func dialer() *net.Dialer {
	const probes = 3
	return &net.Dialer{
		Timeout:         30 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / probes, Interval: deadAfter / probes, Count: probes},
		Control:         limitUnacknowledged,
	}
}
