package memory

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// API-03: long-lived objects are packed if they leave many holes in memory, and not otherwise.
func TestCollectorPacks(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	packed := 0
	c := newCollector(func() { packed++ })
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

// API-03: memory is returned once after the last request, and then no timer runs.
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

// API-13: after the heap has grown, the pace follows its new size.
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
	for begin := time.Now(); percent() != 100; runtime.GC() {
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("heap of %d MB: GOGC is still %d", len(grown)>>20, percent())
		}
	}
	runtime.KeepAlive(grown)
	for begin := time.Now(); percent() == 100 && readHeap().live < allocatedBetween; runtime.GC() {
		if time.Since(begin) > 30*time.Second {
			t.Fatal("GOGC of a small heap equals that of a large one")
		}
	}
}
