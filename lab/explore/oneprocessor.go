package explore

import (
	"runtime"
	"sync"
	"testing"
)

// processors is how many processors the program had before the first of the explorations that now
// run.
var processors struct {
	mu           sync.Mutex
	explorations int
	before       int
}

// oneProcessor sets GOMAXPROCS to 1 until the test ends. When a step lets several goroutines
// continue, such as those of Kubernetes' controllers that create Pods, the order in which they reach
// a lock would otherwise depend on the machine. Runs also take less time: only one goroutine at a
// time has something to do.
func oneProcessor(t *testing.T) {
	p := &processors
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.explorations == 0 {
		p.before = runtime.GOMAXPROCS(1)
	}
	p.explorations++
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.explorations--; p.explorations == 0 {
			runtime.GOMAXPROCS(p.before)
		}
	})
}
