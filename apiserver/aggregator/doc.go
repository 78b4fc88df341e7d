// Package aggregator serves group versions that other API servers implement, as APIService objects
// name them.
//
//	request ─ filters ─ Handler ─┬─ a backend serves the group version ──▶ proxy ──▶ backend
//	                             └─ any other ──▶ the server's own handlers
//
//	APIService ──▶ backend ─┬─ check, every 30 s ──▶ condition Available, discovery
//	                        └─ describe, every 60 s ──▶ OpenAPI v2 and v3
//
// Each APIService with a Service has a backend with its own goroutine, connections and documents,
// so a backend that is down, slow or faulty does not affect others. No request for a merged
// document waits for a backend: the documents show the results of the last checks. They contain
// only the backend's documents about its own group version.
//
// The proxied request names the user in the headers X-Remote-User, -Uid, -Group and -Extra-…; the
// backend trusts them because of the client certificate in [Config.ProxyClient]. Watches and
// protocol upgrades pass through.
//
// [Aggregator.Register] and Run keep an APIService without a Service, called local, for each group
// version that this server serves, as kube-apiserver does.
//
// Without APIServices that name a Service, a request costs one atomic load.
//
//	a := aggregator.New(aggregator.Config{Store: st, Services: resolver, Client: transport})
//	go a.Run(ctx)
//	handler = a.Handler(handler)
package aggregator
