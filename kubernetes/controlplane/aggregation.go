package controlplane

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/aggregator"
	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/services"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/aggregated"
	"kelson.dev/kubernetes/usage"
)

// Aggregation configures how requests reach the servers that APIServices name. The zero value calls
// the endpoints of their Services without a client certificate.
type Aggregation struct {
	// ProxyClient returns the client certificate with which other API servers recognize this one;
	// nil means none. Without the certificate, other servers treat the requests of this server as
	// anonymous.
	ProxyClient func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// ClusterIP calls the cluster IPs of Services, including those of webhooks, instead of their
	// endpoints. A program such as kube-proxy must then route them.
	ClusterIP bool
	// ForwardRedirects passes redirects of these servers to clients, which otherwise get 502.
	ForwardRedirects bool
	// Dial connects to these servers, but not to webhooks; nil means over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// newAggregator returns the aggregator, which does nothing yet.
func (p *ControlPlane) newAggregator(cfg Config, resolver *services.Resolver,
	metrics prometheus.Registerer) *aggregator.Aggregator {
	var proxies authn.RequestHeader
	if cfg.Authentication.RequestHeader != nil {
		proxies = *cfg.Authentication.RequestHeader
	}
	return aggregator.New(aggregator.Config{
		Store: p.store, Services: resolver, Client: p.serverTransport(),
		ProxyClient: cfg.Aggregation.ProxyClient, ForwardRedirects: cfg.Aggregation.ForwardRedirects,
		Dial:         cfg.Aggregation.Dial,
		UserHeaders:  slices.Concat(proxies.Usernames, proxies.UIDs, proxies.Groups),
		UserPrefixes: proxies.ExtraPrefixes,
		Priorities:   builtin.Priorities, Metrics: metrics, Log: cfg.Log,
	})
}

// localVersions returns the group versions that have local APIServices from the start. Like
// kube-apiserver, it omits the group of APIServices. It also omits the group of metrics: users may
// create that APIService to replace the built-in metrics with those of a Service.
func localVersions(set *resource.Set) []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, res := range set.All() {
		for _, v := range res.Versions {
			gv := schema.GroupVersion{Group: res.Group, Version: v.Name}
			if res.Owner != crd.Owner && res.Owner != usage.Owner && res.Group != "apiregistration.k8s.io" &&
				!slices.Contains(out, gv) {
				out = append(out, gv)
			}
		}
	}
	return out
}

// serversAs returns the API servers behind this one for a controller. Its requests have the
// permissions of the controller's service account.
func (p *ControlPlane) serversAs(others *aggregator.Aggregator, controller string) *aggregated.Servers {
	return aggregated.New(aggregated.Config{Discovery: others.Discovery, Changes: others.Changes,
		REST: p.controllerConfig(controller)})
}
