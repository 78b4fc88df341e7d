package now

import (
	"context"
	"slices"
	"strings"
	"sync"

	"kelson.dev/console/internal/web"
	"kelson.dev/lab/causes"
	"kelson.dev/operator/client"
)

// Bounds of the logs that the view reads. A page with more crashing containers shows the last lines
// of the first ones.
const (
	maxRuns    = 100 // per state
	maxReading = 4   // at the same time
	maxLine    = 300 // bytes of a line
)

// run is a run of a container that has ended, so its log no longer changes.
type run struct {
	pod       causes.Object
	uid       string
	container string
	restarts  int
	previous  bool
}

// lastLines reads the last lines of the logs of containers that crashed. The zero value without
// read has none. It is safe for concurrent use.
type lastLines struct {
	// read returns the end of a container's log, as diagnosis.Cluster.Logs does.
	read func(ctx context.Context, pod client.Key, container string, previous bool) ([]string, error)

	reading chan struct{} // a place per read
	changed *web.Signal   // of known

	mu    sync.Mutex
	known map[run]string // "" while a line is read, and for logs without lines
}

func newLastLines(read func(context.Context, client.Key, string, bool) ([]string, error)) *lastLines {
	return &lastLines{read: read, reading: make(chan struct{}, maxReading), changed: web.NewSignal(),
		known: map[run]string{}}
}

// Changed returns a channel that is closed when more lines are known.
func (l *lastLines) Changed() <-chan struct{} { return l.changed.Wait() }

// fill sets the lines of problems. It starts to read those that are not known yet, and forgets
// those that no problem has any more.
func (l *lastLines) fill(ctx context.Context, items []Item) {
	if l.read == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := map[run]string{}
	for i := range items {
		for j := range items[i].Problems {
			p := &items[i].Problems[j]
			if p.run == nil || len(shown) == maxRuns {
				continue
			}
			line, ok := l.known[*p.run]
			if !ok {
				go l.add(context.WithoutCancel(ctx), *p.run) // for the next page, too
			}
			shown[*p.run], p.Log = line, line
		}
	}
	l.known = shown
}

// add reads a line. A log that cannot be read, because the node or the right to do so is missing,
// has none.
func (l *lastLines) add(ctx context.Context, r run) {
	l.reading <- struct{}{}
	lines, err := l.read(ctx, client.Key{Namespace: r.pod.Namespace, Name: r.pod.Name}, r.container, r.previous)
	<-l.reading
	line := lastOf(lines)
	if err != nil || line == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, shown := l.known[r]; shown {
		l.known[r] = line
		l.changed.Notify()
	}
}

// lastOf returns the last line with text, shortened.
func lastOf(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			return strings.ToValidUTF8(line[:min(len(line), maxLine)], "")
		}
	}
	return ""
}
