package manager

import (
	"bytes"
	"net/http"
	"sync"

	"kelson.dev/operator/trace"
)

// accountLines is how many reconciles the account that is served goes back.
const accountLines = 4096

// account keeps the latest records as lines of JSON, and serves them.
type account struct {
	mu    sync.Mutex
	lines [][]byte
	next  int // the oldest, once there are accountLines
}

func (a *account) sink() trace.Sink { return trace.JSON(a) }

// Write takes one line.
func (a *account) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if line = bytes.Clone(line); len(a.lines) < accountLines {
		a.lines = append(a.lines, line)
	} else {
		a.lines[a.next] = line
		a.next = (a.next + 1) % accountLines
	}
	return len(line), nil
}

func (a *account) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
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
