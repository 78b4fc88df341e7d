// Package manager composes an operator: clusters, informers, events, webhooks, controllers, election, probes and metrics, with one life.
//
// # Model
//
// [Manager.Run] starts, in this order, what serves others, what is read, and what works:
//
//  1. the servers of probes, metrics and the account, if they have an address
//  2. the webhooks: their certificates, then their server, then their registration with the API server
//  3. the informers of all clusters, and the writers of events
//  4. what runs in every replica ([OnEveryReplica]); controllers that don't lead yet fill their queues
//  5. when this replica leads and its informers have what the one before wrote, or at once where there is no election: controllers and all else that was added
//
// When its context ends, or anything fails, it stops them in the opposite order, each group when the one above it has ended: so the
// last reconciles still find their informers, the Lease is given back when the leader's work has ended and not before, and the last events
// are written. All that is bounded by [Config].GracePeriod.
//
// # Clusters
//
// A manager may look after several clusters, which come and go while it runs: [Manager.Engage] and [Manager.Disengage]. A [Provider] is
// what discovers them. The cluster is part of a request; in a reconcile, the manager's client reads and writes in the cluster of the
// request.
//
// A cluster that is disengaged takes along its informers and watches, its sources in all controllers, the requests for it, its check in
// /readyz, its metrics and what is remembered of its objects. Reconciles that run there have the grace period.
//
// Nothing listens, and nothing is global, unless asked for: any number of managers may run in one process, and in a testing/synctest
// bubble.
//
// # Use
//
//	m, err := manager.New(manager.Config{REST: config, Scheme: scheme, Name: "at"})
//	err = m.AddController(controller.Config{Name: "at", Reconciler: r, Sources: …})
//	err = m.Run(ctx)
//
// Most operators use package operator, which does this for them.
package manager
