package node

import (
	"fmt"
	"testing"
	"time"
)

// Fill makes the backlog busy for the rest of a test.
func (b *Backlog) Fill() { b.reports.Store(maxReports) }

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
