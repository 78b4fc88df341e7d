// Package leader coordinates the replicas of an operator by Leases: leader election and sharding.
//
// # Election
//
// One of the replicas in an [Election] leads:
//
//	follower ── Lease free, released or not renewed for its duration ──▶ leader ── not renewed in time ──▶ over
//	    ▲                                                                    │
//	    └──────────────── releases the Lease after it has stopped ───────────┘
//
// The record in the Lease has client-go's format, so operators with either library can take part in
// the same election. A follower does not poll: it watches the Lease and acquires it within
// milliseconds of its release. Times of different machines are never compared: a Lease expires when
// a follower has observed it unchanged for its duration, by the follower's own clock.
//
// The files in testdata/traces show elections in which replicas stop, crash and lose their network.
//
// # Shards
//
// With the [Shards] of a controller, every replica works: each reconciles its share of the objects.
// Rendezvous hashing over the live replicas determines the shares, so that few objects move when
// the replicas change. No object is ever reconciled by two replicas at a time: a replica starts on
// a gained object only after the previous owner has stopped working on it and announced that.
//
// # Fencing
//
// A term ends early enough that a leader sends no request in the next leader's term. It cannot
// prevent the network from delivering a request later than that. Only the server can reject such a
// request, and does so if the request has a resourceVersion, or creates an object whose name the
// next leader would choose too. Avoid unconditional updates and deletes, and random names.
//
// # Use
//
//	e, err := leader.New(leader.Config{Client: live, Lease: client.Key{Namespace: "system", Name: "example-operator"}})
//	err = e.Run(ctx, func(ctx context.Context) error { … })
package leader
