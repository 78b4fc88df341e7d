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

	"kelson.dev/operator/internal/exchange"
)

const (
	// maxConnections is how many requests one client has under way at once; more wait. Watches are not counted.
	maxConnections = 100
	// idleTimeout is less than that of kube-apiserver (90 s) and of the usual balancers before it (60 s): a request that is sent while
	// the other end closes its connection is lost.
	idleTimeout = 45 * time.Second
	// deadAfter is about how long the other end of a connection may be silent to probes, or leave unacknowledged what was sent to it.
	deadAfter = 45 * time.Second
)

// NetHTTPEnv is the environment variable that does what Config.NetHTTP does, for every client of the process; true or false.
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

// newHTTPClient makes an HTTP client for a server, of at most so many connections for reads and as many for writes, or of any number if that is
// zero.
//
// It speaks HTTP/1.1, unless the configuration names protocols: with one connection for each request that is under way and for each watch, both
// sides need a third less of the processor for a small request than over streams of HTTP/2, a watch that is read slowly holds up nobody
// else, and requests spread over the servers behind an address.
//
// Small writes are done by package exchange, unless netHTTP is set.
func newHTTPClient(conf *rest.Config, connections int, netHTTP bool) (*http.Client, error) {
	conf = rest.CopyConfig(conf)
	if conf.Transport == nil && len(conf.NextProtos) == 0 {
		conf.NextProtos = []string{"http/1.1"}
		if conf.Dial == nil {
			conf.Dial = dialer().DialContext
		}
		conf.Dial = exchange.Observed(conf.Dial) // client-go wraps connections
		conf.WrapTransport = transport.Wrappers(innermost(connections, conf.CAFile, netHTTP), conf.WrapTransport)
	}
	client, err := rest.HTTPClientFor(conf)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	return client, nil
}

// innermost is what stands directly before the transport that client-go makes of a configuration, which is this client's alone: no two have the
// same dialer.
func innermost(connections int, caFile string, netHTTP bool) transport.WrapperFunc {
	return func(rt http.RoundTripper) http.RoundTripper {
		base := bottom(rt)
		if base == nil {
			return rt
		}
		base.MaxConnsPerHost, base.MaxIdleConnsPerHost, base.IdleConnTimeout = connections, maxConnections, idleTimeout
		if connections == 0 || netHTTP {
			return rt
		}
		return exchange.New(exchange.Config{
			Base: base, Otherwise: rt, Connections: connections, Idle: idleTimeout,
			TLS: func() *tls.Config { return trusting(bottom(rt).TLSClientConfig, caFile) },
		})
	}
}

// bottom is the transport below its wrappers; nil if there is none. What stands between replaces it when the file of an authority changes.
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

// trusting is a configuration with the authorities that a file has now, if there is a file.
func trusting(conf *tls.Config, caFile string) *tls.Config {
	if caFile == "" || conf.RootCAs == nil {
		return conf
	}
	text, err := os.ReadFile(caFile)
	if pool := x509.NewCertPool(); err == nil && pool.AppendCertsFromPEM(text) {
		conf = conf.Clone()
		conf.RootCAs = pool
	}
	return conf // as it was, while the file is not there or being written
}

// dialer makes connections that notice when the other end is gone.
func dialer() *net.Dialer {
	const probes = 3
	return &net.Dialer{
		Timeout:         30 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / probes, Interval: deadAfter / probes, Count: probes},
		Control:         limitUnacknowledged,
	}
}
