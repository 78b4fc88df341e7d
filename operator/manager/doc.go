// Package manager composes an operator: client, informers, events, controllers, probes and metrics, with one life.
//
// # Model
//
// [Manager.Run] starts, in this order, what serves others, what is read, and what works:
//
//  1. the servers of probes and metrics, if they have an address
//  2. the informers and the writer of events
//  3. everything that was added: controllers and other runnables
//
// When its context ends, or anything fails, it stops them in the opposite order, each group when the one above it has ended: so the
// last reconciles still find their informers, and the last events are written. All that is bounded by [Config].GracePeriod.
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
