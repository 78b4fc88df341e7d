// Package filters implements the request pipeline of the control plane, from the first byte of a
// request to the handler that answers it.
//
// [New] holds the whole pipeline as one list in the order in which a request passes it:
//
//	panic recovery ▶ audit ID ▶ request info ▶ deadline ▶ draining ▶ metrics ▶ authentication ▶ audit ▶ impersonation ▶ body ▶ limits ▶ authorization ▶ dispatch
//	                                                                                                                                  │
//	                                           resources (package rest) ◀── /api/v1/pods …                                           ◀┤
//	                     discovery, OpenAPI, health, version, metrics   ◀── every other path, by longest prefix                      ◀┘
//
// Stages store their results in the request's context under Kubernetes' own keys (RequestInfo,
// user, warning recorder), where Kubernetes' libraries look for them. All stages share one context;
// the pipeline costs a small GET about 1.5 µs.
//
// A request is short or long-running. Short requests have a deadline; [Chain.Shutdown] waits for
// them. Long-running requests (watch, log, exec and similar) have no deadline; Shutdown ends them.
// The pipeline reads the body of a short request before the request takes a seat. It ends the
// stream of a client that does not read its response.
//
// A Chain is safe for concurrent use and starts no goroutine.
//
//	c := filters.New(filters.Config{
//		Resources: rest.New(rest.Config{Store: st, Registry: registry}),
//		Paths:     map[string]http.Handler{"/api": disco, "/apis": disco, "/api/": disco, "/apis/": disco},
//	})
//	(&http.Server{Handler: c}).Serve(listener)
//	…
//	c.Shutdown(ctx)
package filters
