// Package leader has the replicas of an operator agree on who does what, by Leases.
//
// # Election
//
// Of all that take part in an [Election], one leads:
//
//	follower ── Lease free, given back or not renewed for its duration ──▶ leader ── not renewed in time ──▶ over
//	    ▲                                                                    │
//	    └──────────────── gives the Lease back when it has stopped ──────────┘
//
// The record in the Lease is client-go's, so operators of both kinds can stand in one election. A follower does not poll: it watches the
// Lease, and takes it over as soon as it is given back, within milliseconds. Times of different machines are never compared:
// a Lease has expired when a follower has seen it unchanged for its duration, by its own clock.
//
// # Shards
//
// The [Shards] of a controller let every replica work: each reconciles the objects that fall to it. Which those are follows from who is
// alive (rendezvous hashing), and moves as little as possible when that changes. No object is ever with two replicas:
// one works on what has come to it only when whoever had it before has put it down and said so.
//
// # Use
//
//	e, err := leader.New(leader.Config{Client: live, Lease: client.Key{Namespace: "system", Name: "example-operator"}})
//	err = e.Run(ctx, func(ctx context.Context) error { … })
package leader
