package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// attack is one of the attacks.
type attack struct {
	name string
	// what describes the attack, and completes the first column of the table.
	what string
	// setup prepares a server before the tenant's baseline is measured. It may be nil.
	setup func(context.Context, *target) error
	// run attacks until ctx ends, or until it has sent its maximum.
	run func(context.Context, *target) error
	// control marks a process that only uses processors and sends no requests. It shows how much a
	// busy machine slows the tenant: see criteria.go.
	control bool
	// equal makes it run at the server's priority, not at a lower one.
	equal bool
	// p99 replaces the limit of the tenant's p99 for an attack whose bursts use all processors of a
	// small machine; docs/reference/security.md has the measurements. 0: the usual limit.
	p99 time.Duration
	// fills gives the server a small file system for its state, which the attack fills. During this
	// attack, the tenant only reads. Then the file system grows. The server must accept writes
	// again without intervention, and must have all acknowledged objects, also after a restart.
	// Only kelson is attacked: etcd has a space quota, and an administrator must intervene after it
	// is used up.
	fills bool
}

// burst is the limit for attacks whose requests arrive hundreds at once.
const burst = 75 * time.Millisecond

// attacks are in the order in which they run. Those whose work may continue after them come last.
var attacks = []attack{
	{name: "control", what: "control: two processors are kept busy by another process, at the attackers' priority; nothing is sent", run: spin, control: true},
	{name: "control-equal", what: "control: the same at the server's priority", run: spin, control: true, equal: true},
	{name: "probes", what: "anonymous: 40 connections of unread /healthz?verbose responses", run: unreadProbes},
	{name: "headers", what: "no role: POSTs whose bodies never arrive", run: unsentBodies},
	{name: "labels", what: "anonymous: 2,500 paths of 200 kB, with concurrent scrapes of /metrics",
		run: inventedLabels},
	{name: "names", what: "anonymous and no role: invented groups, namespaces, methods, tokens and users",
		run: inventedNames},
	{name: "readers", what: "edit: 300 lists of 20 MB, read at 1 kB/s", setup: largeObjects, run: slowReaders},
	{name: "watches", what: "edit: 2,700 unread watches on 20 MB of objects, which change", setup: largeObjects,
		run: unreadWatches, p99: burst},
	{name: "flood", what: "edit: 600 requests at once, lists of 1 MB and writes", setup: mediumObjects, run: allSeats,
		p99: burst},
	{name: "hooks", what: "edit: 400 writes at once, which wait for a webhook that hangs; every eighth has 64 kB",
		setup: hangingWebhook, run: waitingWrites},
	{name: "expanding", what: "no role: 40 bodies at once that expand: YAML, gzip, protobuf and CBOR with false lengths", run: expandingBodies},
	{name: "writes", what: "edit: 16 costly writes at once: strategic merge, $setElementOrder, managedFields, wide maps", setup: costlyObjects, run: costlyWrites},
	{name: "amplify", what: "edit: 8 writes at once whose results are far larger: defaults, 3,000 alternatives of anyOf, JSON patches that copy, merge patches that add up, server-side apply", setup: amplifiers, run: amplifyingWrites},
	{name: "conversions", what: "edit: 8 reads at once of objects whose conversion webhook answers with 160 MB",
		setup: largeConversions, run: convertingReads, p99: burst},
	{name: "disk", what: "edit: fills the disk; the tenant reads; space returns, and the server is restarted",
		run: fillDisk, fills: true},
}

// spin keeps as many processors busy as an attacker can, until ctx ends.
func spin(ctx context.Context, _ *target) error {
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for ctx.Err() == nil {
				for i := range spins {
					spun.Store(int64(i))
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// spins is the number of steps between two checks of spin's context, which take less than a
// millisecond.
const spins = 10_000

var spun atomic.Int64
