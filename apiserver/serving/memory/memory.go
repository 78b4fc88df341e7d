// Package memory keeps a server small: it collects garbage rarely under load and more often under
// little load, and returns unused memory to the operating system when the server becomes idle.
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

	"kelson.dev/internal/footprint"
)

const (
	// allocatedBetween is the number of bytes that a small server under load allocates between two
	// collections; a larger one allocates as many as its heap has. By default, Go collects when the
	// heap has doubled. With a heap of ten megabytes that is every few dozen requests, and takes a
	// quarter of all processor time.
	allocatedBetween = 64 << 20
	// huge is the size of a heap that does not double between two collections: it grows by huge and
	// a third of the rest. 50,000 simulated pods then take 2.1 GB at most instead of 3.3, and 1.7
	// GB at rest instead of 2.2, for 5 % more processor time.
	huge = 384 << 20
	// minBetween is the minimum number of bytes that are allocated between two collections of a
	// server with little traffic. All bytes that are allocated between two collections are
	// resident.
	minBetween = 16 << 20
	// collecting is the part of a processor's time that collections may take before a server
	// allocates more between them, and marking about the processor time, in seconds, that a
	// collection takes for a live byte. (The times that the runtime measures include those of other
	// processes on a busy machine.)
	collecting = 0.1
	marking    = 1.5e-9
	// large is the size of a heap for which collections may take twice as much: its lists make the
	// rate of allocation high for a moment, and each per cent that it grows is more memory.
	large = 64 << 20
	// rateOver is the time over which the rate of allocation is measured. It is long enough that
	// the list of a large collection does not let the heap double: it allocates as much in a tenth
	// of a second as small requests in ten seconds.
	rateOver = 10 * time.Second
	// minSample is the minimum time between two samples, which bounds their number.
	minSample = rateOver / 100
	// idleAfter is the time without requests after which unused memory is returned to the system.
	idleAfter = 2 * time.Second
	// maxProgramBytes is how many bytes of the program file may stay in the memory of an idle
	// server, which needs only a few megabytes of it.
	maxProgramBytes = 16 << 20
	// minUnused is the minimum number of unused bytes that are returned.
	minUnused = 8 << 20
)

// collector controls garbage collection: as often as costs little processor time, and once when the
// server becomes idle, after which unused memory is returned to the operating system. No timer runs
// on an idle server. GOGC in the environment disables the pacing.
type collector struct {
	requests atomic.Int64
	armed    atomic.Bool
	pack     func() (packed bool, again time.Duration) // see Manage

	mu      sync.Mutex
	timer   *time.Timer
	seen    int64 // requests at the last check
	percent int   // GOGC, as it was set
	history history
	stopped bool
}

func newCollector(pack func() (packed bool, again time.Duration)) *collector {
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
// memory if pages in use have many unused bytes. If pack cannot do that yet, it returns the time
// after which Manage calls it again, if the server is still idle. If packed is false, nothing has
// become free, and no further garbage collection runs.
func Manage(h http.Handler, pack func() (packed bool, again time.Duration)) (counted http.Handler, stop func()) {
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
		c.sample(readHeap())
		c.timer = time.AfterFunc(idleAfter, c.checkIdle)
	}
}

// sample records what the process has allocated. The collections record it too, but on an idle
// server they are minutes apart: without a sample of the first request, the first collections in a
// large list would count its allocations as those of minutes. The caller holds c.mu.
func (c *collector) sample(h heap) (rate float64) { return c.history.rate(time.Now(), h.allocated) }

// checkIdle runs every idleAfter while there are requests, and once after the last.
func (c *collector) checkIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if now := c.requests.Load(); now != c.seen {
		c.seen = now
		c.sample(readHeap())
		c.timer.Reset(idleAfter)
		return
	}
	again := time.Duration(0)
	if h := readHeap(); h.unused() > max(minUnused, h.live/8) {
		debug.FreeOSMemory()
		if h = readHeap(); c.pack != nil && h.holes > max(minUnused, h.live/8) {
			packed := false
			if packed, again = c.pack(); packed {
				debug.FreeOSMemory()
			}
		}
	}
	footprint.Release(maxProgramBytes)
	if again > 0 {
		c.timer.Reset(max(again, idleAfter)) // and then every idleAfter if there are requests
		return
	}
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
	h := readHeap()
	percent := int(min(1000, 100*growth(h.live, c.sample(h))/max(h.live, 1<<20)))
	// Setting it stops all goroutines for a moment.
	if change := percent - c.percent; c.percent == 0 || change < -c.percent/8 || change > c.percent/8 {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
}

// history has how many bytes the process had allocated at earlier times.
type history struct{ samples []sample } // the first is at least rateOver old, if there is one

type sample struct {
	at        time.Time
	allocated uint64
}

// rate adds a sample. It returns the bytes allocated per second during the last rateOver, for which
// it assumes a constant rate between two samples, or since the oldest sample if that is newer;
// infinity for the first sample.
func (h *history) rate(now time.Time, allocated uint64) float64 {
	from := now.Add(-rateOver)
	for len(h.samples) > 1 && !h.samples[1].at.After(from) {
		h.samples = append(h.samples[:0], h.samples[1:]...)
	}
	if n := len(h.samples); n > 1 && now.Sub(h.samples[n-2].at) < minSample {
		h.samples = h.samples[:n-1]
	}
	h.samples = append(h.samples, sample{now, allocated})
	first := h.samples[0]
	if len(h.samples) == 1 || !now.After(first.at) {
		return math.Inf(1) // the process has just started
	}
	before := float64(first.allocated)
	if first.at.After(from) {
		from = first.at
	} else {
		next := h.samples[1]
		part := from.Sub(first.at).Seconds() / next.at.Sub(first.at).Seconds()
		before += part * float64(next.allocated-first.allocated)
	}
	return (float64(allocated) - before) / now.Sub(from).Seconds()
}

// growth returns how many bytes may be allocated until the next collection of a heap with live
// bytes, into which the process allocates a number of bytes each second: as many as let collections
// take the part collecting of a processor, or twice that, within limits. The upper limit applies
// from about 65 or 130 MB/s, which is one or two thousand writes a second; a server with less
// traffic needs less memory.
func growth(live uint64, rate float64) uint64 {
	least, most := max(minBetween, live/8), max(allocatedBetween, live)
	interval := float64(live) * marking / collecting
	if live > large {
		interval /= 2
	}
	if live > huge {
		most = huge + (live-huge)/3
	}
	return uint64(min(max(rate*interval, float64(least)), float64(most)))
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
	live uint64 // reachable at the last collection
	// allocated is the sum of all allocations since the process started.
	allocated uint64
	objects   uint64 // live, and allocated since then
	free      uint64 // neither used nor returned to the system, including holes
	holes     uint64 // unused, in spans that have objects
}

func (h heap) unused() uint64 { return h.objects - min(h.objects, h.live) + h.free }

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return heap{
		live: samples[0].Value.Uint64(), objects: samples[1].Value.Uint64(),
		free: samples[2].Value.Uint64() + samples[3].Value.Uint64(), holes: samples[3].Value.Uint64(),
		allocated: samples[4].Value.Uint64(),
	}
}
