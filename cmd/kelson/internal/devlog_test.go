package internal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/cmd/kelson/internal/dev/devlog"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/trace"
)

// Each change of an object is one line with what changed. A change of other status fields, and
// writes of Leases, are not logged.
func TestWritesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.New(t, store.Config{})
		kinds := resource.NewRegistry(&resource.Resource{Plural: "pods", Singular: "pod", Kind: "Pod",
			Namespaced: true})
		var out bytes.Buffer
		a := devlog.New(&out, kinds)
		cursor, err := s.Watch("", s.Snapshot().Revision())
		require.NoError(t, err)
		write := func(resource, name, data string) {
			t.Helper()
			op := store.Op{Key: store.Key{Resource: resource, Namespace: "default", Name: name},
				Expect: store.AnyRevision}
			if data != "" {
				op.Data = []byte(data)
			}
			_, err := s.Commit(t.Context(), op)
			require.NoError(t, err)
			events, _, err := cursor.Next()
			require.NoError(t, err)
			for _, e := range events {
				a.Event(e)
			}
		}
		write("pods", "web", `{"metadata":{"name":"web","generation":1},"status":{"phase":"Pending"}}`)
		time.Sleep(1500 * time.Millisecond)
		write("pods", "web", `{"metadata":{"name":"web","generation":1},"status":{"phase":"Running"}}`)
		write("pods", "web", `{"metadata":{"name":"web","generation":1},"status":{"phase":"Running","podIP":"10.0.0.9"}}`)
		write("pods", "web", `{"metadata":{"name":"web","generation":2},"status":{"phase":"Running"}}`)
		write("pods", "web", `{"metadata":{"name":"web","generation":2,"deletionTimestamp":"2030-01-01T00:00:00Z"},"status":{"phase":"Running"}}`)
		write("pods", "web", "")
		write("leases.coordination.k8s.io", "node", `{"metadata":{"name":"node"}}`)
		write("events", "e", `{"metadata":{"name":"e"},"type":"Warning","reason":"BackOff","message":"again","count":3,"involvedObject":{"kind":"Pod","name":"web"}}`)

		want := `
   0.000s  pod/web                       created (Pending)
   1.500s  pod/web                       Pending → Running
   1.500s  pod/web                       changed (generation 2)
   1.500s  pod/web                       is being deleted
   1.500s  pod/web                       deleted
   1.500s  pod/web                       ⚠ BackOff: again (3 times)
`
		if got := "\n" + out.String(); got != want {
			t.Errorf("got%swant%s", got, want)
		}
	})
}

// A reconcile is one line with its causes, duration, writes and result.
func TestReconcilesAreLoggedWithCausesAndResults(t *testing.T) {
	for _, test := range []struct {
		record trace.LineRecord
		want   string
	}{
		{trace.LineRecord{Controller: "at", Kind: "At", Name: "a", Duration: "1.23456ms",
			Causes: []trace.LineCause{{Event: trace.Add, Kind: "At", Name: "a"},
				{Event: trace.Update, Kind: "Pod", Name: "p"}},
			Writes: []trace.LineWrite{{Verb: "apply", Kind: "Pod", Name: "p", Changed: true},
				{Verb: "patch", Subresource: "status", Kind: "At", Name: "a", Changed: true}}},
			"⟳ at reconciled (created, pod/p updated) in 1.23ms: applied pod/p, patched status of at/a"},
		{trace.LineRecord{Controller: "at", Kind: "At", Name: "a", Duration: "1ms", RequeueAfter: "1h0m0s",
			Causes: []trace.LineCause{{Event: trace.After}}, MoreCauses: 2},
			"⟳ at reconciled (requeue time reached, 2 more) in 1ms: again after 1h0m0s"},
		{trace.LineRecord{Controller: "at", Kind: "At", Name: "a", Duration: "1ms", Error: "boom",
			Writes: []trace.LineWrite{{Verb: "create", Kind: "Pod", Name: "p", Error: "refused"},
				{Verb: "apply", Kind: "Pod", Name: "q"}}},
			"⟳ at reconciled (no cause known) in 1ms: create pod/p failed: refused, error: boom"},
		{trace.LineRecord{Controller: "at", Kind: "At", Name: "a", Duration: "1ms",
			Causes: []trace.LineCause{{Event: trace.Sync}}},
			"⟳ at reconciled (existed at the start) in 1ms: nothing to do"},
	} {
		var out bytes.Buffer
		devlog.New(&out, resource.NewRegistry()).Reconcile(test.record)
		if !strings.HasSuffix(out.String(), "  "+test.want+"\n") || !strings.Contains(out.String(), " at/a ") {
			t.Errorf("got  %swant %s", out.String(), test.want)
		}
	}
}

func TestOutputIsLoggedLineByLine(t *testing.T) {
	var out bytes.Buffer
	w := devlog.New(&out, resource.NewRegistry()).Output("pod/web")
	fmt.Fprint(w, "one\r\ntw")
	fmt.Fprint(w, "o\n\nthr")
	fmt.Fprint(w, "ee")
	require.NoError(t, w.Close())
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(line, "│ ")
		got = append(got, strings.TrimSuffix(text, "\n"))
	}
	assert.Equalf(t, strings.Join(got, "|"), "one|two||three", "got %q", got)
}

// Long work is announced at once, and says at intervals that it continues.
func TestWorkingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := devlog.New(&out, nil).Working("operator", "building…")
		begin := out.String()
		time.Sleep(25 * time.Second)
		stop()
		time.Sleep(time.Minute)
		if lines := strings.Count(out.String(), "\n"); !strings.Contains(begin, "building…\n") || lines != 3 ||
			!strings.Contains(out.String(), "building… 20s\n") {
			t.Errorf("at once %q, at the end:\n%s", begin, out.String())
		}
	})
}

// A hot loop writes a bounded number of lines; the log says how many it omits. Different entries
// stay.
func TestRepeatsAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := devlog.New(&out, nil)
		for i := range 5000 {
			l.Printf("tea/a", "⟳ tea reconciled (updated) in %dµs: updated tea/a", i)
			time.Sleep(time.Millisecond)
		}
		l.Printf("tea/a", "✉ Started: another entry")
		time.Sleep(time.Minute)
		lines := strings.Count(out.String(), "\n")
		if lines != 20+1+1 || !strings.Contains(out.String(),
			"… and 4980 more like the last: ⟳ tea reconciled (updated) in 4999µs") ||
			!strings.Contains(out.String(), "another entry") {
			t.Errorf("%d lines:\n%s", lines, out.String())
		}
		l.Printf("tea/a", "⟳ tea reconciled (updated) in 1µs: updated tea/a")
		got := strings.Count(out.String(), "\n")
		assert.Equalf(t, got, lines+1, "the next entry of a new window is not written:\n%s", out.String())
		time.Sleep(time.Minute) // the timer of the window ends
	})
}
