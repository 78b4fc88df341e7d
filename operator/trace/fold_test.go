package trace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// In a hot loop, JSON writes a record each second, with the number of reconciles that it stands
// for. Other objects, and outcomes that are new, are written at once.
func TestFoldedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		tracer := trace.New(trace.Config{Sink: trace.JSON(&out)})
		do := func(name string, err error) {
			req := reconcile.Request{NamespacedName: client.Key{Namespace: "default", Name: name}}
			_, span := tracer.Start(t.Context(), trace.Record{
				Controller: "at", Kind: "At", Request: req, Causes: trace.Because(trace.Cause{Event: trace.Retry}),
			})
			span.End(reconcile.Result{}, err)
		}
		const loops = 5000
		for i := range loops { // ten seconds
			do("looping", nil)
			if i == loops/2 {
				do("looping", errors.New("failed once"))
				do("other", errors.New("broken"))
			}
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		do("looping", nil)

		lines, stood := map[string]int{}, map[string]int{}
		var newest time.Time
		for line := range strings.Lines(out.String()) {
			var r trace.LineRecord
			must(t, json.Unmarshal([]byte(line), &r))
			of := fmt.Sprint(r.Name, " ", r.Error)
			lines[of]++
			stood[of] += 1 + r.Repeats
			newest = r.Time
		}
		if n := lines["looping "]; n < 20+9 || n > 20+12 {
			t.Errorf("%d lines of the loop", n)
		}
		if n := stood["looping "]; n != loops+1 {
			t.Errorf("the lines of the loop stand for %d reconciles, want %d", n, loops+1)
		}
		if lines["looping failed once"] != 1 || lines["other broken"] != 1 {
			t.Errorf("lines: %v", lines)
		}
		if !newest.Equal(time.Now()) {
			t.Errorf("the newest reconcile, after a pause, was written with the time %s", newest)
		}
	})
}
