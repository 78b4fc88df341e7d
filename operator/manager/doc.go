// Package manager composes an operator: clusters, informers, events, webhooks, controllers, leader
// election, probes and metrics, with a common lifecycle.
//
// # Model
//
// [Manager.Run] starts, in this order:
//
//  1. the servers of probes, metrics and the trace, if they have an address
//  2. the webhooks: their certificates, then their server, then their registration with the API
//     server
//  3. the informers of all clusters, and the event writers
//  4. everything that runs on every replica ([OnEveryReplica]); controllers that wait for
//     leadership fill their queues
//  5. controllers and everything else that was added: immediately without leader election;
//     otherwise when this replica leads and its informers have the writes of the previous leader
//
// When its context ends, or any part fails, Run stops these groups in reverse order, each after the
// following one has ended. So the last reconciles still have their informers, the Lease is released
// only after the leader's work has ended, and the last events are written. [Config].GracePeriod
// bounds the time that this takes.
//
// # Clusters
//
// A manager can work on several clusters, which join and leave while it runs: [Manager.Engage] and
// [Manager.Disengage]. A [Provider] discovers them. A request contains its cluster; in a reconcile,
// the manager's client reads from and writes to the cluster of the request.
//
// Disengaging a cluster removes its informers and watches, its sources in all controllers, the
// requests for it, its check in /readyz, its metrics and everything recorded about its objects.
// Reconciles in progress have the grace period.
//
// A manager opens no ports unless configured to, and has no global state: any number of managers
// can run in one process, and in a testing/synctest bubble.
//
// # Use
//
//	m, err := manager.New(manager.Config{REST: config, Scheme: scheme, Name: "at"})
//	err = m.AddController(controller.Config{Name: "at", Reconciler: r, Sources: …})
//	err = m.Run(ctx)
//
// Most operators use package operator, which does this for them.
package manager
