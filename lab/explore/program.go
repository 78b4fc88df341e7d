package explore

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/uuid"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// program holds the global state of the program that explorations change while they run.
var program struct {
	mu           sync.Mutex
	explorations int
	processors   int
	handlers     []utilruntime.ErrorHandler
}

// makeDeterministic makes runs independent of the machine and of each other, until the test ends:
//
//   - GOMAXPROCS is 1. When a step lets several goroutines continue, such as those of Kubernetes'
//     controllers that create Pods, the order in which they reach a lock would otherwise depend on
//     the machine. Runs also take less time, because they have little parallel work.
//   - UIDs are not random: the n-th object of a run has the same UID in all runs. Operators compute
//     names from UIDs.
//   - Errors that Kubernetes' libraries report are dropped. Faults cause many, and the reporter
//     limits its rate by waiting after the previous error, which may be one of another run.
func makeDeterministic(t *testing.T) {
	p := &program
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.explorations == 0 {
		p.processors, p.handlers = runtime.GOMAXPROCS(1), utilruntime.ErrorHandlers
		utilruntime.ErrorHandlers = nil
		uuid.SetRand(&uids)
	}
	p.explorations++
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.explorations--; p.explorations == 0 {
			runtime.GOMAXPROCS(p.processors)
			uuid.SetRand(nil) // the default
			utilruntime.ErrorHandlers = p.handlers
		}
	})
}

// uids is the random source of the UIDs of a run.
var uids source

// source is a reader of pseudo-random numbers, the same ones after each start.
type source struct {
	mu     sync.Mutex
	random *rand.ChaCha8
}

func (s *source) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.random = rand.NewChaCha8([32]byte{1})
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random == nil {
		s.random = rand.NewChaCha8([32]byte{})
	}
	return s.random.Read(p)
}

// seed determines the generated names and the UIDs of a run.
func seed() {
	utilrand.Seed(0)
	uids.start()
}
