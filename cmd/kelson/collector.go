package main

import (
	"math"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/operator/footprint"
)

const (
	// allocatedBetween is how much a small server allocates at least between two collections. Go would collect each time the heap has doubled,
	// which for a heap of ten megabytes means every few dozen requests, and a quarter of all processor time.
	allocatedBetween = 64 << 20
	// quiet is after how long without a request memory is given back.
	quiet = 2 * time.Second
	// manyPages is how much of the program's file may stay in the memory of an idle server: what it needs then is a few megabytes.
	manyPages = 32 << 20
	// worthwhile is how much there must be to give back.
	worthwhile = 16 << 20
)

// collector decides when garbage is collected: rarely while there is much to do, and once when there is nothing to do any more; then unused
// memory is given back to the operating system. Nothing ticks on an idle server. GOGC in the environment decides otherwise.
type collector struct {
	requests atomic.Int64
	armed    atomic.Bool

	mu      sync.Mutex
	timer   *time.Timer
	seen    int64
	percent int // GOGC, as it was set
	stopped bool
}

func newCollector() *collector {
	c := &collector{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pace()
	runtime.SetFinalizer(&cycle{c}, (*cycle).done)
	return c
}

// cycle is reachable by nobody: each collection finds that out and calls done.
type cycle struct{ c *collector }

// done sets the pace anew. A heap that grows quickly would else be collected by what it was seconds ago, thus too late.
func (cy *cycle) done() {
	cy.c.mu.Lock()
	defer cy.c.mu.Unlock()
	if !cy.c.stopped {
		cy.c.pace()
		runtime.SetFinalizer(cy, (*cycle).done)
	}
}

// around notes the requests that a handler answers.
func (c *collector) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer c.note()
		h.ServeHTTP(w, req)
	})
}

func (c *collector) note() {
	c.requests.Add(1)
	if c.armed.Load() || !c.armed.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.timer = time.AfterFunc(quiet, c.look)
	}
}

// look runs while there are requests, and once after the last.
func (c *collector) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if now := c.requests.Load(); now != c.seen {
		c.seen = now
		c.timer.Reset(quiet)
		return
	}
	if h := readHeap(); h.unused() > max(worthwhile, h.live/4) {
		debug.FreeOSMemory()
	}
	footprint.Release(manyPages)
	c.armed.Store(false)
	if c.requests.Load() != c.seen && c.armed.CompareAndSwap(false, true) { // one came in between
		c.timer.Reset(quiet)
	}
}

// pace sets how far the heap may grow until the next collection. The caller holds c.mu.
func (c *collector) pace() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := 100.0
	if live := readHeap().live; live < allocatedBetween {
		percent = math.Min(1000, 100*allocatedBetween/float64(max(live, 1<<20)))
	}
	if p := int(percent); p != c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
}

func (c *collector) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// heap is what the runtime knows of it, in bytes.
type heap struct {
	live    uint64 // reachable at the last collection
	objects uint64 // these, and what was allocated since
	free    uint64 // neither used nor given back
}

func (h heap) unused() uint64 { return h.objects - min(h.objects, h.live) + h.free }

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples)
	return heap{
		live: samples[0].Value.Uint64(), objects: samples[1].Value.Uint64(),
		free: samples[2].Value.Uint64() + samples[3].Value.Uint64(),
	}
}
