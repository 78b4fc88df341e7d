// Package filters is the way of a request through the control plane, from the first byte to the handler that answers it.
//
// [New] holds the whole pipeline as one list in the order in which a request passes it:
//
//	panic recovery ▶ request info ▶ timeout ▶ draining ▶ audit ▶ metrics ▶ authentication ▶ impersonation ▶ body ▶ limits ▶ authorization ▶ dispatch
//	                                                                                                                                  │
//	                                           resources (package rest) ◀── /api/v1/pods …                                           ◀┤
//	                     discovery, OpenAPI, health, version, metrics   ◀── every other path, by longest prefix                      ◀┘
//
// What a stage finds out lies in the request's context under Kubernetes' own keys (RequestInfo, user, warning recorder), so that
// libraries of Kubernetes find it there. All stages share one such context: they cost a small GET about a microsecond and a half.
//
// A request is short or long-running. Short ones have a deadline and are waited for at shutdown; long-running ones (watch, log,
// exec and their like) have none and are ended by shutdown. [Chain.Shutdown] does both. The body of a short request is read
// before the request takes a seat, and an answer that its client does not read ends with its stream.
//
// A Chain is safe for concurrent use and starts no goroutine.
//
//	c := chain.New(chain.Config{
//		Resources: rest.New(rest.Config{Store: st, Registry: registry}),
//		Paths:     map[string]http.Handler{"/api": disco, "/apis": disco, "/api/": disco, "/apis/": disco},
//	})
//	(&http.Server{Handler: c}).Serve(listener)
//	…
//	c.Shutdown(ctx)
package filters
