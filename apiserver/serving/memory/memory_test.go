package memory

import (
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// long-lived objects are packed if they leave many holes in memory, and not otherwise.
func TestCollectorPacks(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	packed := 0
	c := newCollector(func() (bool, time.Duration) { packed++; return true, 0 })
	defer c.stop()
	c.checkIdle()
	if packed > 0 {
		t.Error("packed without holes")
	}
	kept := withHoles()
	runtime.GC() // an earlier collection may have seen all objects in use
	c.checkIdle()
	if packed != 1 {
		t.Errorf("packed %d times", packed)
	}
	runtime.KeepAlive(kept)
}

// withHoles returns objects between which the memory is free.
func withHoles() (kept [][]byte) {
	all := make([][]byte, 800_000)
	for i := range all {
		all[i] = make([]byte, 64)
	}
	for i := 0; i < len(all); i += 50 {
		kept = append(kept, all[i])
	}
	return kept
}

// Memory is returned once after the last request, and then no timer runs.
func TestCollectorStopsOnIdleServer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(nil)
		defer c.stop()
		h := c.count(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		begin := time.Now()
		for range 10 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			time.Sleep(time.Second)
		}
		for c.armed.Load() {
			time.Sleep(time.Second)
		}
		if d := time.Since(begin); d > 15*time.Second {
			t.Errorf("the timer ran for %s", d)
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if !c.armed.Load() {
			t.Error("a request after the idle period was not counted")
		}
	})
}

// After the heap has grown, the pace follows its new size.
func TestCollectorFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	c := newCollector(nil)
	defer c.stop()
	percent := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.percent
	}
	grown := make([]byte, 2*allocatedBetween)
	for begin := time.Now(); percent() > 100; runtime.GC() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("heap of %d MB: GOGC is still %d", len(grown)>>20, percent())
		}
	}
	runtime.KeepAlive(grown)
	for begin := time.Now(); percent() <= 100 || readHeap().live >= allocatedBetween; runtime.GC() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("small heap: GOGC is still %d", percent())
		}
	}
}

// A server under load collects as rarely as before, one with little traffic more often: what it
// allocates between two collections is resident.
func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live        uint64
		rate        float64
		least, most uint64
	}{
		{10 * mb, math.Inf(1), 64 * mb, 64 * mb}, // the process has just started
		{10 * mb, 300 * mb, 45 * mb, 64 * mb},    // load
		{30 * mb, 300 * mb, 64 * mb, 64 * mb},    // load
		{200 * mb, 300 * mb, 200 * mb, 200 * mb}, // load, a large heap
		{30 * mb, 3 * mb, 16 * mb, 16 * mb},      // 30 requests a second
		{200 * mb, 5 * mb, 25 * mb, 25 * mb},     // the same, a large heap
		{60 * mb, 20 * mb, 16 * mb, 20 * mb},     // in between
		{200 * mb, 20 * mb, 30 * mb, 35 * mb},
		{1000 * mb, 3 * mb, 125 * mb, 125 * mb},
		{1000 * mb, 300 * mb, 589 * mb, 590 * mb}, // load, a huge heap
		{0, 0, 16 * mb, 16 * mb},
	} {
		if got := growth(c.live, c.rate); got < c.least || got > c.most {
			t.Errorf("%d MB live, %.0f MB/s: %d MB, want %d to %d", c.live/mb, c.rate/mb, got/mb, c.least/mb, c.most/mb)
		}
	}
}

// The rate is that of the last ten seconds: one large list is not load.
func TestRate(t *testing.T) {
	var h history
	begin := time.Unix(0, 0)
	allocated := uint64(0)
	after := func(d time.Duration, bytes uint64) float64 {
		allocated += bytes
		return h.rate(begin.Add(d), allocated)
	}
	if rate := after(0, 1000); !math.IsInf(rate, 1) {
		t.Errorf("at the start: %.0f", rate)
	}
	for second := range 30 {
		after(time.Duration(second+1)*time.Second, 100)
	}
	if rate := after(30*time.Second+100*time.Millisecond, 900); rate < 170 || rate > 200 {
		t.Errorf("100 each second, and 900 in a tenth of a second: %.0f", rate)
	}
	if rate := after(time.Hour, 100); rate > 1 {
		t.Errorf("after an hour without a collection: %.0f", rate)
	}
	if rate := after(time.Hour+9*time.Second, 9_000); rate < 850 || rate > 950 {
		t.Errorf("9,000 in nine seconds after an hour: %.0f", rate)
	}
	for range 1000 {
		after(time.Hour+9*time.Second, 1)
	}
	if len(h.samples) > int(rateOver/minSample)+2 {
		t.Errorf("%d samples", len(h.samples))
	}
}

// A store that cannot be packed yet is packed later, if the server is still idle.
func TestCollectorPacksLater(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	kept := withHoles()
	synctest.Test(t, func(t *testing.T) {
		packed := 0
		c := newCollector(func() (bool, time.Duration) {
			if packed++; packed == 1 {
				return false, 5 * time.Minute
			}
			return true, 0
		})
		defer c.stop()
		h := c.count(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		runtime.GC()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		time.Sleep(time.Minute)
		if packed != 1 {
			t.Errorf("packed %d times at first", packed)
		}
		time.Sleep(5 * time.Minute)
		if packed != 2 || c.armed.Load() {
			t.Errorf("packed %d times; a timer runs: %t", packed, c.armed.Load())
		}
	})
	runtime.KeepAlive(kept)
}
