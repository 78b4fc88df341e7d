package main

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// API-03: memory is given back once after the last request, and then nothing ticks.
func TestCollectorRestsWithTheServer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	synctest.Test(t, func(t *testing.T) {
		c := newCollector()
		defer c.stop()
		h := c.around(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		begin := time.Now()
		for range 10 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			time.Sleep(time.Second)
		}
		for c.armed.Load() {
			time.Sleep(time.Second)
		}
		if d := time.Since(begin); d > 15*time.Second {
			t.Errorf("it looked for %s", d)
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if !c.armed.Load() {
			t.Error("a request after the rest was not noted")
		}
	})
}

// API-13: a heap that has grown is collected by what it is, not by what it was at the last look.
func TestCollectorFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	c := newCollector()
	defer c.stop()
	percent := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.percent
	}
	grown := make([]byte, 2*allocatedBetween)
	for begin := time.Now(); percent() != 100; runtime.GC() {
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("with %d MB the heap may still grow by %d %%", len(grown)>>20, percent())
		}
	}
	runtime.KeepAlive(grown)
	for begin := time.Now(); percent() == 100 && readHeap().live < allocatedBetween; runtime.GC() {
		if time.Since(begin) > 30*time.Second {
			t.Fatal("a small heap is collected as if it were large")
		}
	}
}
