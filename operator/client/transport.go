package client

import (
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
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

// newHTTPClient returns an HTTP client for a server, with at most the given number of connections;
// zero means no limit.
//
// It uses HTTP/1.1 unless the configuration lists protocols, with a connection for each request in
// flight and for each watch. Compared to HTTP/2, both sides need a fifth less CPU time for a small
// request, a watch that is read slowly does not block others, and requests spread over the servers
// behind an address.
func newHTTPClient(conf *rest.Config, connections int) (*http.Client, error) {
	conf = rest.CopyConfig(conf)
	if conf.Transport == nil && len(conf.NextProtos) == 0 {
		conf.NextProtos = []string{"http/1.1"}
		if conf.Dial == nil {
			conf.Dial = dialer().DialContext
		}
		conf.WrapTransport = transport.Wrappers(innermost(connections, max(answerWithin, conf.Timeout)),
			conf.WrapTransport)
	}
	client, err := rest.HTTPClientFor(conf)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	return client, nil
}

// innermost wraps the transport that client-go creates for a configuration. Each client has its own
// transport, because no two have the same dialer.
func innermost(connections int, answer time.Duration) transport.WrapperFunc {
	return func(rt http.RoundTripper) http.RoundTripper {
		base := bottom(rt)
		if base == nil {
			return rt
		}
		base.MaxConnsPerHost, base.MaxIdleConnsPerHost, base.IdleConnTimeout = connections, maxConnections, idleTimeout
		if connections != 0 {
			base.ResponseHeaderTimeout = answer
		}
		return rt
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

// dialer returns a dialer whose connections detect a dead peer.
func dialer() *net.Dialer {
	const probes = 3
	return &net.Dialer{
		Timeout: 30 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / probes, Interval: deadAfter / probes,
			Count: probes},
		Control: limitUnacknowledged,
	}
}
