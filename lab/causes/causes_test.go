package causes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/require"
	"kelson.dev/lab/causes"
	"kelson.dev/operator/trace"
)

// Two operators: one creates a ConfigMap for a Deploy, the other creates a Pod for the ConfigMap.
const (
	first = `{"id":1,"run":"aaaa","time":"2030-01-02T15:04:05Z","controller":"deploy","kind":"Deploy","namespace":"default","name":"d","causes":[{"event":"add","kind":"Deploy","namespace":"default","name":"d","resourceVersion":"7","manager":"kubectl-create"}],"writes":[{"verb":"apply","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","changed":true}],"duration":"1ms"}
`
	second = `{"id":1,"run":"bbbb","time":"2030-01-02T15:04:06Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c","causes":[{"event":"add","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","manager":"first"}],"error":"forbidden","duration":"1ms"}
{"id":2,"run":"bbbb","time":"2030-01-02T15:04:06.5Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c","causes":[{"event":"retry"}],"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"p","resourceVersion":"9","changed":true}],"duration":"1ms"}
`
)

// The order in which traces are read does not matter, and reading one again has no effect.
func TestExplain(t *testing.T) {
	for _, traces := range [][]string{{first, second}, {second, first}, {first, second, first, second}} {
		var readers []*strings.Reader
		for _, text := range traces {
			readers = append(readers, strings.NewReader(text))
		}
		x, err := causes.Read(readers[0], readers[1])
		require.NoError(t, err)
		for _, again := range readers[2:] {
			more, err := causes.Read(again)
			require.NoError(t, err)
			for _, r := range more.Records() {
				if x.Add(r) {
					t.Errorf("reconcile %d of run %s was added twice", r.ID, r.Run)
				}
			}
		}
		found := x.Find("pods", "", "p")
		if len(found) != 1 {
			t.Fatalf("found %v", found)
		}
		e := x.Explain(found[0], 5)
		by := e.Writes[0].By.Because[0].By.Because[0]
		if by.Write == nil || by.Write.Verb != "apply" || by.By.Controller != "deploy" ||
			by.By.Because[0].Cause.Manager != "kubectl-create" {
			data, _ := json.Marshal(e)
			t.Errorf("got %s", data)
		}
		if none := x.Explain(found[0], -1); len(none.Writes) > 0 || none.Earlier != len(e.Writes) {
			t.Errorf("the last -1 writes: %+v", none)
		}
		settled := causes.Object{Kind: "ConfigMap", Namespace: "default", Name: "c"}
		if u := x.Explain(settled, 5).Unsettled; len(u) > 0 {
			t.Errorf("the failure was followed by a success, but is listed: %v", u)
		}
	}
}

func TestEffectsAndConnected(t *testing.T) {
	x, err := causes.Read(strings.NewReader(first), strings.NewReader(second))
	require.NoError(t, err)
	effects := x.Effects(x.Record("aaaa", 1))
	if len(effects) != 1 || len(effects[0].Reconciles) != 1 || effects[0].Reconciles[0].Controller != "pods" {
		t.Errorf("got %+v", effects)
	}
	for _, tt := range []struct {
		run    string
		number uint64
		want   int
	}{{"bbbb", 2, 3}, {"bbbb", 1, 2}, {"aaaa", 1, 2}} {
		if got := x.Connected(x.Record(tt.run, tt.number), 100); len(got) != tt.want {
			t.Errorf("%s/%d is connected with %d reconciles, want %d", tt.run, tt.number, len(got), tt.want)
		}
	}
	if x.Record("aaaa", 9) != nil {
		t.Error("found a record that does not exist")
	}
}

// A trace with a limit keeps the newest records. A record that was removed is not new when it is
// read again.
func TestLimit(t *testing.T) {
	const limit = 100
	tr := causes.New(limit)
	for range 2 {
		for i := range 10 * limit {
			version := fmt.Sprint(i)
			tr.Add(&trace.LineRecord{ID: uint64(i + 1), Run: "a", Time: time.Unix(int64(i), 0), Kind: "K",
				Name:   "n" + version,
				Causes: []trace.LineCause{{Event: "update", Kind: "K", Name: "n" + version, ResourceVersion: version}},
				Writes: []trace.LineWrite{{Verb: "update", Kind: "W", Name: "n" + version, ResourceVersion: version,
					Changed: true}}})
		}
		records := tr.Records()
		if n := len(records); n < limit || n > limit*5/4 || tr.Removed() != 10*limit-n || records[n-1].ID != 10*limit {
			t.Errorf("%d records remain, the last with the ID %d, and %d were removed", n, records[n-1].ID,
				tr.Removed())
		}
		if tr.Record("a", 1) != nil || len(tr.Find("w", "", "n1")) > 0 || tr.Record("a", 10*limit) == nil {
			t.Error("an old record remains, or a new one does not")
		}
	}
}
