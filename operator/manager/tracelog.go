package manager

import (
	"net/http"
	"slices"
	"sync"

	"kelson.dev/operator/trace"
)

// traceLines is how many recent records the served trace has at most; at times a quarter more.
const traceLines = 4096

// traceLog keeps the latest records as lines of JSON, and serves them. An object with many records
// does not displace those of others: see trace.Retain.
type traceLog struct {
	mu    sync.Mutex
	lines []traceLine
}

type traceLine struct {
	text  []byte
	worth trace.Retention[tracedObject]
}

// tracedObject is an object and the controller that reconciled it.
type tracedObject struct{ controller, cluster, kind, namespace, name string }

func (a *traceLog) sink() trace.Sink {
	return trace.JSONLines(func(r *trace.LineRecord, line []byte) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lines = append(a.lines, traceLine{line, trace.Retention[tracedObject]{
			Object: tracedObject{r.Controller, r.Cluster, r.Kind, r.Namespace, r.Name}, Failed: r.Error != "",
			Changed: r.Changed(),
		}})
		if len(a.lines) > traceLines+traceLines/4 {
			a.lines = trace.Retain(a.lines, traceLines, func(l traceLine) trace.Retention[tracedObject] {
				return l.worth
			})
		}
	})
}

func (a *traceLog) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	lines := slices.Clone(a.lines)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, line := range lines {
		if _, err := w.Write(line.text); err != nil {
			return
		}
	}
}
