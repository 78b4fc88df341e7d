package main

import "context"

// attack is one of the attacks.
type attack struct {
	name string
	// what completes the first column of the table: what the attacker does.
	what string
	// setup prepares a server; it may be nil. The tenant's baseline is measured after it.
	setup func(context.Context, *target) error
	// run attacks until ctx ends, or until it has sent its maximum.
	run func(context.Context, *target) error
}

// attacks are in the order in which they run. Those whose work may continue after them come last.
var attacks = []attack{
	{"probes", "anonymous: 40 connections of unread /healthz?verbose responses", nil, unreadProbes},
	{"headers", "no role: POSTs whose bodies never arrive", nil, unsentBodies},
	{"labels", "anonymous: 2,500 paths of 200 kB; /metrics is scraped meanwhile", nil, inventedLabels},
	{"names", "anonymous and no role: invented groups, namespaces, methods, tokens and users", nil, inventedNames},
	{"readers", "edit: 300 lists of 20 MB, read at 1 kB/s", largeObjects, slowReaders},
	{"watches", "edit: 2,700 unread watches on 20 MB of objects, which change", largeObjects, unreadWatches},
	{"flood", "edit: 600 requests at once, lists of 1 MB and writes", mediumObjects, allSeats},
	{"expanding", "no role: 40 bodies at once that expand: YAML, gzip, protobuf and CBOR with false lengths", nil, expandingBodies},
	{"writes", "edit: 16 costly writes at once: strategic merge, $setElementOrder, managedFields, wide maps", costlyObjects, costlyWrites},
}
