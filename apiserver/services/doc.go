// Package services finds network addresses of Services, for the parts of an API server that call
// servers in the cluster: the aggregator, admission webhooks and conversion webhooks.
//
// [Resolver.ResolveEndpoint] looks, in this order, at
//
//  1. the annotation [URL] of the Service: a server outside of the cluster, for tests
//  2. the DNS name of the Service, if Config.DNS is set
//  3. the external name, of a Service of type ExternalName
//  4. the cluster IP, if Config.ClusterIP is set
//  5. the ready endpoints in the Service's EndpointSlices or, if there are none, in its Endpoints
//
// Every call reads the newest state of the store, so an address is never stale. The package keeps
// no cache.
//
//	resolver := services.New(services.Config{Store: st})
//	url, err := resolver.ResolveEndpoint("kube-system", "metrics-server", 443)
package services
