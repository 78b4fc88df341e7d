package node

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Fill makes the backlog busy for the rest of a test.
func (b *Backlog) Fill() { b.reports.Store(maxReports()) }

// A Backlog is busy while two reports for each processor are in progress.
func TestBacklog(t *testing.T) {
	b := NewBacklog()
	var ends []func()
	for range 2 * runtime.GOMAXPROCS(0) {
		if b.busy() {
			t.Errorf("busy with %d reports", len(ends))
		}
		ends = append(ends, b.begin())
	}
	if !b.busy() {
		t.Errorf("not busy with %d reports", len(ends))
	}
	if ends[0](); b.busy() {
		t.Error("busy after the end of a report")
	}
}

// While as many agents join as can at once, a further one waits until one of them has joined, but
// no longer than the patience.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBacklog()
		start := time.Now()
		var ends []func()
		for range maxJoins() {
			ends = append(ends, b.join(t.Context()))
		}
		go func() {
			time.Sleep(time.Second)
			ends[0]()
		}()
		b.join(t.Context())
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("an agent waited %v for one that took a second to join", waited)
		}
		b.join(t.Context())()
		if waited := time.Since(start); waited != time.Second+patience {
			t.Errorf("an agent waited %v for others that do not join, want %v more", waited, patience)
		}
	})
}

// The heartbeats of a thousand nodes that start together come in each of ten seconds.
func TestPhase(t *testing.T) {
	var counts [10]int
	for i := range 1000 {
		counts[phase(fmt.Sprintf("node-%d", i+1), 10*time.Second)/time.Second]++
	}
	for second, n := range counts {
		if n < 50 || n > 200 {
			t.Errorf("%d heartbeats in second %d: %v", n, second, counts)
		}
	}
}
