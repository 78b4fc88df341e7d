// Package memory keeps a server small: it collects garbage rarely under load, and returns unused
// memory to the operating system when the server becomes idle.
//
//	handler, stop := memory.Manage(handler, store.Pack)
//	defer stop()
//
// It changes settings of the whole process, so only a program whose only task is serving should
// use it.
package memory

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
	// allocatedBetween is the minimum number of bytes that a small server allocates between two
	// collections. By default, Go collects when the heap has doubled. With a heap of ten megabytes
	// that is every few dozen requests, and takes a quarter of all processor time.
	allocatedBetween = 64 << 20
	// idleAfter is the time without requests after which unused memory is returned to the system.
	idleAfter = 2 * time.Second
	// maxProgramBytes is how many bytes of the program file may stay in the memory of an idle
	// server, which needs only a few megabytes of it.
	maxProgramBytes = 16 << 20
	// minUnused is the minimum number of unused bytes that are returned.
	minUnused = 8 << 20
)

// collector controls garbage collection: rarely under load, and once when the server becomes idle,
// after which unused memory is returned to the operating system. No timer runs on an idle server.
// GOGC in the environment disables the pacing.
type collector struct {
	requests atomic.Int64
	armed    atomic.Bool
	pack     func() // called before unused memory is returned; nil: nothing

	mu      sync.Mutex
	timer   *time.Timer
	seen    int64 // requests at the last check
	percent int   // GOGC, as it was set
	stopped bool
}

func newCollector(pack func()) *collector {
	c := &collector{pack: pack}
	c.follow()
	return c
}

// follow sets the pace, now and after each collection, because the pace depends on the size of the
// heap that the collection has measured. With a pace that was set only at the start, 20,000 creates
// in memory made the process peak at 215 to 282 MiB of private memory instead of 140 to 145. With
// Go's own pace (GOGC=100) they peak at 121 to 124 MiB, but a create takes 7 to 9 % more processor
// time (docs/design/performance.md).
func (c *collector) follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.pace()
		// The next collection finds the marker unreachable and runs the cleanup.
		runtime.AddCleanup(new(marker), (*collector).follow, c)
	}
}

// marker has a pointer, because the allocator can keep small objects without one longer.
type marker struct{ _ *marker }

// count returns a handler that counts the requests of h.
func (c *collector) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer c.countRequest()
		h.ServeHTTP(w, req)
	})
}

// Manage controls garbage collection of a process that serves h: it collects rarely under load and
// returns unused memory two seconds after the last request. The caller serves the returned handler
// and calls stop at the end. A process calls it once.
//
// pack moves long-lived objects closer together, or is nil. Manage calls it before it returns
// memory if pages in use have many unused bytes.
func Manage(h http.Handler, pack func()) (counted http.Handler, stop func()) {
	c := newCollector(pack)
	return c.count(h), c.stop
}

func (c *collector) countRequest() {
	c.requests.Add(1)
	if c.armed.Load() || !c.armed.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.timer = time.AfterFunc(idleAfter, c.checkIdle)
	}
}

// checkIdle runs every idleAfter while there are requests, and once after the last.
func (c *collector) checkIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if now := c.requests.Load(); now != c.seen {
		c.seen = now
		c.timer.Reset(idleAfter)
		return
	}
	if h := readHeap(); h.unused() > max(minUnused, h.live/4) {
		debug.FreeOSMemory()
		if h = readHeap(); c.pack != nil && h.holes > max(minUnused, h.live/4) {
			c.pack()
			debug.FreeOSMemory()
		}
	}
	footprint.Release(maxProgramBytes)
	c.armed.Store(false)
	// a request arrived in the meantime
	if c.requests.Load() != c.seen && c.armed.CompareAndSwap(false, true) {
		c.timer.Reset(idleAfter)
	}
}

// pace sets how far the heap may grow before the next collection. The caller holds c.mu.
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

// heap holds sizes in bytes, from runtime/metrics.
type heap struct {
	live    uint64 // reachable at the last collection
	objects uint64 // live, and allocated since then
	free    uint64 // neither used nor returned to the system, including holes
	holes   uint64 // unused, in spans that have objects
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
		free: samples[2].Value.Uint64() + samples[3].Value.Uint64(), holes: samples[3].Value.Uint64(),
	}
}
