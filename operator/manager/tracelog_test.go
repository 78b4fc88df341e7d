package manager

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"kelson.dev/operator/trace"
)

// The endpoint serves the trace of the latest reconciles, oldest first.
func TestTraceIsBounded(t *testing.T) {
	for _, reconciles := range []int{3, 2*traceLines + 3} {
		a := &traceLog{}
		sink := a.sink()
		for i := range reconciles {
			// a second apart, so that they are not combined
			sink.Reconciled(trace.Record{ID: uint64(i + 1), Time: time.Unix(int64(i), 0), Controller: "test"})
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		lines := bytes.Split(bytes.TrimSpace(w.Body.Bytes()), []byte("\n"))
		want := len(lines)
		if want != min(reconciles, traceLines+traceLines/4) && (want < traceLines || want > traceLines+traceLines/4) {
			t.Fatalf("%d lines", want)
		}
		for i, line := range lines {
			var r trace.LineRecord
			if err := json.Unmarshal(line, &r); err != nil || r.ID != uint64(reconciles-want+i+1) {
				t.Fatalf("line %d is of %d: %s", i, r.ID, fmt.Sprint(err))
			}
		}
	}
}
