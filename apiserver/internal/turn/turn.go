// Package turn bounds how many long computations run at once. While a computation waits for
// something else, such as a webhook, it pauses and another one takes its turn.
//
//	turns := turn.New(turn.Processors)
//	t, err := turns.Take(ctx)
//	defer t.End()
//	…
//	resume := turn.Pause(turn.Context(ctx, t)) // anywhere below
//	resp, err := client.Do(req)
//	resume()
//
// This keeps the latency of short requests low. Go lets a goroutine run for ten milliseconds before
// another one gets its processor. With n long computations for each processor, a short request
// would wait n times ten milliseconds.
package turn

import (
	"context"
	"net/http"
	"runtime"
	"sync"
)

// Processors is the number of concurrent long computations that leaves one processor to short
// requests: one less than the number of processors at the start of the process, but at least one.
var Processors = max(1, runtime.GOMAXPROCS(0)-1)

// Turns is a number of turns. It is safe for concurrent use. Waiting computations get turns in the
// order of their arrival.
type Turns struct {
	taken chan struct{} // one element for each turn that is taken
}

// New returns n turns.
func New(n int) Turns { return Turns{taken: make(chan struct{}, n)} }

// Take waits for a turn. It returns the error of ctx if ctx ends first.
func (ts Turns) Take(ctx context.Context) (*Turn, error) {
	select {
	case ts.taken <- struct{}{}:
		return &Turn{turns: ts}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Turn is a turn of one computation, which may consist of several goroutines. It is safe for
// concurrent use. A nil *Turn is the turn of a computation that is not bounded.
type Turn struct {
	turns Turns

	mu     sync.Mutex
	pauses int  // in progress
	given  bool // another computation may have the turn
}

// End ends the turn. It may be called during pauses, which must still end.
func (t *Turn) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pauses++ // never retaken
	t.give()
}

// pause releases the turn until the last pause in progress ends.
func (t *Turn) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pauses++
	t.give()
}

// give releases the turn for other computations. The caller must hold mu.
func (t *Turn) give() {
	if !t.given {
		t.given = true
		<-t.turns.taken
	}
}

// resume ends a pause. The end of the last one waits for a turn; if ctx ends first, the computation
// continues without one, because it will end soon.
func (t *Turn) resume(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pauses--; t.pauses > 0 {
		return
	}
	select {
	case t.turns.taken <- struct{}{}:
		t.given = false
	case <-ctx.Done():
	}
}

type contextKey struct{}

// Context returns a context whose computation has a turn.
func Context(ctx context.Context, t *Turn) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// Pause releases the turn of a context's computation until resume is called, which waits for a
// turn. Without a turn it does nothing.
func Pause(ctx context.Context) (resume func()) {
	t, _ := ctx.Value(contextKey{}).(*Turn)
	if t == nil {
		return func() {}
	}
	t.pause()
	return func() { t.resume(ctx) }
}

// Transport pauses the turn of a request's context while it waits for the response.
type Transport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	defer Pause(req.Context())()
	return t.RoundTripper.RoundTrip(req)
}

// WrappedRoundTripper returns the wrapped transport, for code that looks for its connections.
func (t Transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
