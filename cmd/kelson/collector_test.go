package main

import (
	"net/http"
	"net/http/httptest"
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
