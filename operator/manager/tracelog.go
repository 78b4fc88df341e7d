package manager

import (
	"bytes"
	"net/http"
	"sync"

	"kelson.dev/operator/trace"
)

// traceLines is how many recent records the served trace has.
const traceLines = 4096

// traceLog keeps the latest records as lines of JSON, and serves them.
type traceLog struct {
	mu    sync.Mutex
	lines [][]byte
	next  int // the oldest line, once there are traceLines
}

func (a *traceLog) sink() trace.Sink { return trace.JSON(a) }

// Write appends one line.
func (a *traceLog) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if line = bytes.Clone(line); len(a.lines) < traceLines {
		a.lines = append(a.lines, line)
	} else {
		a.lines[a.next] = line
		a.next = (a.next + 1) % traceLines
	}
	return len(line), nil
}

func (a *traceLog) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	lines := append(append([][]byte{}, a.lines[a.next:]...), a.lines[:a.next]...)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, line := range lines {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}
