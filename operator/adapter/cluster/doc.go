// Package cluster has a cache and a client with controller-runtime's interfaces, over the library's
// informers and client. Package adapter gives them to controller-runtime's manager.
//
// # Model
//
//	controller-runtime's controllers ── GetInformer ──▶ Cache ──▶ informer.Informers ──list, watch──▶ server
//	reconcilers ── reads ──▶ Client ──▶ Cache             ▲                                             ▲
//	            └─ writes ─▶ Client ──────────────────────┴── the response overlays the informer ───────┘
//
// A Cache has one or more leaves. A leaf is a set of informers with one configuration: selectors,
// namespaces, transform and resync period. Options without per-object settings need one leaf. Each
// kind in cache.Options.ByObject has its own leaf. If the namespaces of a kind are configured
// differently, each namespace has its own leaf.
//
// # Differences from controller-runtime's cache
//
// Reads see the writes of the client that [NewClient] returns for the cache. Field selectors work
// on every field, even without an index, and lists are ordered by namespace and name, with real
// pages. A read of a namespace that the cache does not have goes to the server. Reads of a kind
// that the server refuses to list fail immediately instead of waiting for the end of their context.
//
// EnableWatchBookmarks has no effect: watches always accept bookmarks. NewInformer also has no
// effect, because informers of client-go can't be used; a warning is logged.
package cluster
