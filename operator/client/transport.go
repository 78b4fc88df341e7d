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
	// maxConnections is how many requests one client has under way at once; more wait. Watches are not counted.
	maxConnections = 100
	// idleTimeout is less than that of kube-apiserver (90 s) and of the usual balancers before it (60 s): a request that is sent while
	// the other end closes its connection is lost.
	idleTimeout = 45 * time.Second
	// deadAfter is about how long the other end of a connection may be silent to probes, or leave unacknowledged what was sent to it.
	deadAfter = 45 * time.Second
)

// newHTTPClient makes an HTTP client for a server, of at most so many connections, or any number of them if that is zero.
//
// It speaks HTTP/1.1, unless the configuration names protocols: with one connection for each request that is under way and for each watch, both
// sides need a third less of the processor for a small request than over streams of HTTP/2, a watch that is read slowly holds up nobody
// else, and requests spread over the servers behind an address.
func newHTTPClient(conf *rest.Config, connections int) (*http.Client, error) {
	conf = rest.CopyConfig(conf)
	if conf.Transport == nil && len(conf.NextProtos) == 0 {
		conf.NextProtos = []string{"http/1.1"}
		if conf.Dial == nil {
			conf.Dial = dialer().DialContext
		}
		limit := func(rt http.RoundTripper) http.RoundTripper {
			limitConnections(rt, connections)
			return rt
		}
		conf.WrapTransport = transport.Wrappers(limit, conf.WrapTransport)
	}
	client, err := rest.HTTPClientFor(conf)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	return client, nil
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

// limitConnections finds the transport at the bottom, which is this client's alone: no two have the same dialer.
func limitConnections(rt http.RoundTripper, connections int) {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			t.MaxConnsPerHost, t.MaxIdleConnsPerHost, t.IdleConnTimeout = connections, maxConnections, idleTimeout
			return
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return
		}
	}
}
