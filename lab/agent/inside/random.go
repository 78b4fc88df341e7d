package inside

import (
	"io"
	"math/rand"
	"sync"
)

// Seeds are functions that seed the random numbers of libraries. The files that are added to the
// main package append to it in their init functions.
var Seeds []func(int64)

// seed makes random numbers the same in all runs, but different in the processes of a run:
// operators make names and identities of them.
func seed(n int64) {
	rand.Seed(n)
	for _, f := range Seeds {
		f(n)
	}
}

// Random returns a source of random bytes that depend only on n.
func Random(n int64) io.Reader { return &random{source: rand.New(rand.NewSource(n))} }

type random struct {
	mu     sync.Mutex
	source *rand.Rand
}

// Read implements io.Reader.
func (r *random) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(p)
}
